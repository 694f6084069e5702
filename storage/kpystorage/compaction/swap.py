"""Putting compacted segments in the place of the old ones, so that a stop at any point harms nothing.

The order is Kafka's (LocalLog.replaceSegments): ``.cleaned`` becomes ``.swap``, the last segment first; the old
segments are set aside, the first one first; ``.swap`` becomes the final name. While a ``.cleaned`` of a group is left,
the next start undoes the whole group; after that it completes it (:mod:`kpystorage.segment_files`).

Not here: making the compacted files, which are whole and durable by now, and when to do it. The caller makes the names
durable (``disk.synchronize_directory``) before the next group of the same log and before the checkpoint of the cleaner:
the files that a later group removed may only be gone if those of an earlier one cannot come back.

Invariant: the active segment is never replaced, and slices of old files that readers hold stay readable.
"""

from typing import TYPE_CHECKING

from kpystorage import names
from kpystorage.compaction.task import CleanedSegments
from kpystorage.disk import Disk
from kpystorage.log_folder import LogFolder
from kpystorage.segment import Segment
from kpystorage.set_aside import set_aside

if TYPE_CHECKING:
    from kpystorage.log import Log


def swap_in(log: "Log", cleaned: CleanedSegments, now_ms: int) -> None:
    """Put the cleaned segments of an open log in the place of those they replace, all at once for readers.

    Raises:
        DiskFailure: the directory is offline, or goes offline now; or descriptors are missing, and nothing was done.
        ValueError: the log does not hold these segments (any more); nothing was done.
    """
    if log.directory.failure is not None:
        raise log.directory.offline()
    first, last = _place(log, cleaned)
    disk, directory = log.directory.disk, log.path
    with log.directory.failing():
        for segment in log.segments[first:last]:
            segment.files()  # may want descriptors, which may be missing: nothing behind this line does
        for base_offset in reversed(cleaned.base_offsets):
            _rename(disk, directory, base_offset, names.CLEANED, names.SWAP)
        set_aside(log, log.segments[first:last], now_ms, kept_snapshots=cleaned.base_offsets)
        for base_offset in cleaned.base_offsets:
            _rename(disk, directory, base_offset, names.SWAP, "")
        log.segments[first:last] = [_open(log, base_offset, now_ms) for base_offset in cleaned.base_offsets]
        log.base_offsets[first:last] = cleaned.base_offsets


def discard(disk: Disk, folder: LogFolder) -> None:
    """Remove the files that a stopped cleaner left in a log's directory. May run in a thread. OSError."""
    for name in [] if folder.is_leaving else disk.list_directory(folder.path):
        parsed = names.parse_temporary_file(name)
        if parsed is not None and parsed[2] == names.CLEANED:
            folder.unlink(name)


def _place(log: "Log", cleaned: CleanedSegments) -> tuple[int, int]:
    """The place of the replaced segments in the log's list."""
    replaced = list(cleaned.replaced)
    if not replaced or list(cleaned.base_offsets[:1]) != replaced[:1] or replaced[0] not in log.base_offsets:
        raise ValueError(f"{log.name}: no segments {replaced} for {list(cleaned.base_offsets)}")
    first = log.base_offsets.index(replaced[0])
    last = first + len(replaced)
    if log.base_offsets[first:last] != replaced or last >= len(log.segments):
        raise ValueError(f"{log.name}: segments {replaced} are not all there, or one is still written to")
    return first, last


def _rename(disk: Disk, directory: str, base_offset: int, suffix: str, new_suffix: str) -> None:
    for kind in names.SEGMENT_FILES:
        path = f"{directory}/{names.segment_file(base_offset, kind)}"
        if kind != names.TRANSACTION_INDEX or disk.status(path + suffix) is not None:
            disk.rename(path + suffix, path + new_suffix)


def _open(log: "Log", base_offset: int, now_ms: int) -> Segment:
    disk = log.directory.disk
    transactions = f"{log.path}/{names.segment_file(base_offset, names.TRANSACTION_INDEX)}"
    has_transactions = disk.status(transactions) is not None
    return Segment(disk, log.path, base_offset, created_ms=now_ms, config=log.config, has_transactions=has_transactions)
