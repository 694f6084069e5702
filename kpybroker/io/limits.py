"""The process's limit on open files: raised as far as the system lets us, since every connection and log needs some."""

import logging

log = logging.getLogger("kpybroker")

WANTED_FILES = 1 << 20
RESERVED_FILES = 256
"""For sockets of the process itself, libraries and temporary files."""


def raise_open_files() -> int:
    """Raise the soft limit to the hard one; the limit that holds now."""
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
            log.warning("the limit of %d open files cannot be raised: %s", soft, error)
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
    """How many clients fit beside the logs: one more could keep the node from opening its own files."""
    return max(16, limit - RESERVED_FILES - descriptors_for_logs(limit) - descriptors_for_replies(limit))


def descriptors_for_replies(limit: int) -> int:
    """How many files may be kept open for replies that clients do not read."""
    return max(32, (limit - RESERVED_FILES) // 6)


def descriptors_for_logs(limit: int) -> int:
    """How many of the allowed open files logs may keep open; the rest is for connections."""
    return max(64, (limit - RESERVED_FILES) // 3)
