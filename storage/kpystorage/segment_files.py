"""The contents of a log's directory: its segments and snapshots, after everything half-done in it has been finished.

A segment that is being removed has the suffix ``.deleted``, one being compacted ``.cleaned``, a finished compaction
``.swap``. Work that a stop interrupted is completed here as Kafka's LogLoader does it.
"""

from collections.abc import Callable
from typing import NamedTuple

from kpystorage import names, scan
from kpystorage.checkpoint import TEMPORARY
from kpystorage.disk import Disk


class SegmentFiles(NamedTuple):
    """The base offsets of segments, ascending; those with both indexes, those with a transaction index; snapshot
    offsets; whether there is a ``partition.metadata``."""

    base_offsets: list[int]
    indexed: frozenset[int]
    transaction_indexes: frozenset[int]
    snapshots: list[int]
    has_metadata: bool


def survey(disk: Disk, path: str, report: Callable[[str], None]) -> SegmentFiles:
    """Finish or undo everything half-done in the directory, then list its contents. May raise OSError."""
    listed = disk.list_directory(path)
    if any(names.parse_temporary_file(name) or _is_left_over(name) for name in listed):
        _finish(disk, path, listed, report)
        listed = disk.list_directory(path)
    offsets: dict[str, set[int]] = {suffix: set() for suffix in (*names.SEGMENT_FILES, names.PRODUCER_SNAPSHOT)}
    for name in listed:
        parsed = names.parse_segment_file(name)
        if parsed is not None:
            offsets[parsed[1]].add(parsed[0])
    logs = offsets[names.LOG]
    for suffix in names.INDEXES:
        for orphan in offsets[suffix] - logs:
            report(f"{path}: {names.segment_file(orphan, suffix)} has no segment; it is removed")
            disk.unlink(f"{path}/{names.segment_file(orphan, suffix)}")
    return SegmentFiles(
        sorted(logs),
        frozenset(offsets[names.OFFSET_INDEX] & offsets[names.TIME_INDEX]),
        frozenset(offsets[names.TRANSACTION_INDEX] & logs),
        sorted(offsets[names.PRODUCER_SNAPSHOT]),
        names.PARTITION_METADATA in listed,
    )


def _is_left_over(name: str) -> bool:
    return name.endswith(TEMPORARY) or names.is_lent_file(name)


def _finish(disk: Disk, path: str, listed: list[str], report: Callable[[str], None]) -> None:
    temporary = [(name, parsed) for name in listed if (parsed := names.parse_temporary_file(name)) is not None]
    cleaned = [offset for _, (offset, _, mark) in temporary if mark == names.CLEANED]
    first_cleaned = min(cleaned, default=None)
    swaps = []
    for name, (offset, suffix, mark) in temporary:
        if mark == names.SWAP and (first_cleaned is None or offset < first_cleaned):
            swaps.append((name, offset, suffix))
        else:
            disk.unlink(f"{path}/{name}")
    for name in listed:
        if _is_left_over(name):
            disk.unlink(f"{path}/{name}")
    spans = [_span(disk, f"{path}/{name}", offset) for name, offset, suffix in swaps if suffix == names.LOG]
    if spans:
        _remove_replaced(disk, path, min(start for start, _ in spans), max(end for _, end in spans), report)
    for name, _, _ in swaps:
        disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(names.SWAP)}")


def _span(disk: Disk, path: str, base_offset: int) -> tuple[int, int]:
    """(base offset, next offset) of a segment file. A segment with the same base offset is replaced even if this one is
    empty."""
    file = disk.file(path)
    next_offset = base_offset + 1
    for _, header in scan.headers(file, 0, file.size()):
        next_offset = header.next_offset
    file.release()
    return base_offset, next_offset


def _remove_replaced(disk: Disk, path: str, start: int, end: int, report: Callable[[str], None]) -> None:
    for name in disk.list_directory(path):
        parsed = names.parse_segment_file(name)
        if parsed is not None and start <= parsed[0] < end:
            report(f"{path}: {name} was compacted into another segment; it is removed")
            disk.unlink(f"{path}/{name}")
