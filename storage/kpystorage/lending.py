"""Segments that are lent to readers in other processes: their files get second names, which outlive retention,
compaction and the rolling of segments.

A lent file is a hard link in the directory of its log, so it takes no space of its own until the segment is deleted.
Its first bytes, up to the end that is lent with it, never change: they lie below the high watermark.

Not here: who borrows, and for how long (`kpybroker.hosts.leases`).
"""

import errno
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kpystorage import names
from kpystorage.disk import Disk
from kpystorage.log_offset import LogOffset

if TYPE_CHECKING:  # readers load this module for what was lent, and no log
    from kpystorage.log import Log


class LentSegment(NamedTuple):
    """A lent segment. Its batches up to ``end_position`` may be read; they reach ``next_offset``."""

    base_offset: int
    next_offset: int
    path: str
    index_path: str
    end_position: int
    inode: int


def lend(disk: Disk, log: "Log", start_offset: int, end: LogOffset, lease: int) -> list[LentSegment]:
    """Lend the segments that hold ``start_offset`` up to ``end``. May raise OSError; then nothing is lent."""
    lent: list[LentSegment] = []
    try:
        lent.extend(_lend(disk, log, start_offset, log.position_of(end.offset) if end.position < 0 else end, lease))
    except OSError:
        for segment in lent:
            take_back(disk, segment)
        raise
    return lent


def _lend(disk: Disk, log: "Log", start_offset: int, end: LogOffset, lease: int) -> Iterator[LentSegment]:
    log.active.log.descriptor()  # appends that wait to be written are written by this
    first = max(bisect_right(log.base_offsets, start_offset) - 1, 0)
    for number in range(first, len(log.segments)):
        segment = log.segments[number]
        if segment.base_offset >= end.offset:
            return
        is_last = number + 1 == len(log.segments) or log.base_offsets[number + 1] >= end.offset
        end_position = end.position if segment.base_offset == end.segment_base_offset else segment.size
        next_offset = end.offset if is_last else log.base_offsets[number + 1]
        path = _link(disk, log, segment.base_offset, names.LOG, lease)
        try:
            index_path = _link(disk, log, segment.base_offset, names.OFFSET_INDEX, lease)
            status = disk.status(path)
            if status is None:
                raise FileNotFoundError(errno.ENOENT, "a lent name is gone", path)
        except OSError:
            disk.unlink(path)
            raise
        yield LentSegment(segment.base_offset, next_offset, path, index_path, end_position, status.inode)


def _link(disk: Disk, log: "Log", base_offset: int, suffix: str, lease: int) -> str:
    path = f"{log.path}/{names.lent_file(base_offset, suffix, lease)}"
    disk.link(f"{log.path}/{names.segment_file(base_offset, suffix)}", path)
    return path


def take_back(disk: Disk, segment: LentSegment) -> None:
    """Remove the second names of a segment. Names that are gone are no error. May raise OSError."""
    for path in (segment.path, segment.index_path):
        with suppress(FileNotFoundError):
            disk.unlink(path)
