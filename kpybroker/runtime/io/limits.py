"""The process's limit on open files. It is raised as far as the system allows: connections and logs need many."""

import logging

log = logging.getLogger("kpybroker")

WANTED_FILES = 1 << 20
RESERVED_FILES = 256
"""The descriptors reserved for the process's own sockets, for libraries and temporary files."""


def raise_open_files() -> int:
    """Raise the soft limit to the hard one. Return the limit that holds now."""
    try:
        import resource
    except ImportError:
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (ValueError, OSError) as error:
            log.warning("The limit of %d open files could not be raised: %s", soft, error)
    return int(soft)


def open_files() -> int:
    """The limit on open files that holds for this process now."""
    try:
        import resource
    except ImportError:
        return 512
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return WANTED_FILES if limit == resource.RLIM_INFINITY else int(limit)


def descriptors_for_connections(limit: int) -> int:
    """The number of connections that leave enough descriptors for the node's own files."""
    return max(16, limit - RESERVED_FILES - descriptors_for_logs(limit) - descriptors_for_replies(limit))


def descriptors_for_replies(limit: int) -> int:
    """The number of files that may be kept open for replies that clients do not read."""
    return max(32, (limit - RESERVED_FILES) // 6)


def descriptors_for_logs(limit: int) -> int:
    """The number of files that logs may keep open; the rest is for connections."""
    return max(64, (limit - RESERVED_FILES) // 3)
