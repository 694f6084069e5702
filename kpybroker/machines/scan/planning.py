"""Ranges of offsets made into tasks of a good size, whatever the number of partitions. Pure.

Invariant: the tasks have each offset of the ranges once. The parts of a partition are in order.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from kpybroker.machines.scan.ranges import OffsetRange, Spot

SMALL_PART: Final = 8
"""Ranges that have together at most this part of ``task_bytes`` are one task: reading them takes about as long as
starting a task."""
ENOUGH_TASKS: Final = 16
"""Larger ranges are put together only where this many tasks are left: fewer would leave cores without work."""
MOST_TASKS: Final = 100_000


class TaskSizes(NamedTuple):
    """How tasks are cut."""

    task_bytes: int
    min_tasks: int | None = None
    """Spark's minPartitions: at least about this many tasks."""
    max_records: int | None = None
    """Spark's maxRecordsPerPartition: the most offsets of a task."""

    def cuts(self, partitions: int) -> bool:
        """Whether Spark's source would cut the ranges of this number of partitions into more tasks."""
        return self.max_records is not None or (self.min_tasks or 0) > partitions


def tasks(
    ranges: Iterable[OffsetRange], offset_bytes: Mapping[Spot, float], sizes: TaskSizes
) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task. ``offset_bytes`` is the mean size of an offset in each partition."""
    there = [each for each in ranges if each.offsets > 0]
    pieces = []
    for part in there:
        count = ceil(_bytes(part, offset_bytes) / sizes.task_bytes)
        if sizes.max_records is not None:
            count = max(count, ceil(part.offsets / sizes.max_records))
        pieces += cut(part, min(count, MOST_TASKS))
    if sizes.min_tasks is not None and sizes.min_tasks > len(pieces):
        pieces = _at_least(pieces, sizes.min_tasks)
    if sizes.min_tasks is not None or sizes.max_records is not None:
        return [(piece,) for piece in pieces]
    total_bytes = sum(_bytes(part, offset_bytes) for part in there)
    shared_bytes = min(total_bytes / ENOUGH_TASKS, sizes.task_bytes)
    return _together(pieces, offset_bytes, max(shared_bytes, sizes.task_bytes / SMALL_PART))


def _bytes(part: OffsetRange, offset_bytes: Mapping[Spot, float]) -> float:
    return part.offsets * offset_bytes.get(part.spot, 0.0)


def cut(part: OffsetRange, count: int) -> list[OffsetRange]:
    """A range in ``count`` parts of about equal length, fewer where it has fewer offsets."""
    count = max(min(count, part.offsets), 1)
    ends = [part.start_offset + part.offsets * number // count for number in range(count + 1)]
    return [part._replace(start_offset=start, end_offset=end) for start, end in pairwise(ends)]


def _at_least(pieces: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """At least ``wanted`` parts where there are that many offsets; the longest pieces are cut into most."""
    counts = [1] * len(pieces)
    total = sum(piece.offsets for piece in pieces)
    for place, piece in enumerate(pieces):
        counts[place] = max(min(piece.offsets * wanted // total, piece.offsets), 1)
    missing = wanted - sum(counts)
    for place in sorted(range(len(pieces)), key=lambda at: counts[at] / pieces[at].offsets):
        if missing <= 0:
            break
        more = min(pieces[place].offsets - counts[place], max(ceil(missing / len(pieces)), 1))
        counts[place] += more
        missing -= more
    return [part for piece, count in zip(pieces, counts, strict=True) for part in cut(piece, count)]


def _together(
    pieces: Iterable[OffsetRange], offset_bytes: Mapping[Spot, float], most_bytes: float
) -> list[tuple[OffsetRange, ...]]:
    """Small pieces put together, in their order. Large ones stay alone."""
    made: list[tuple[OffsetRange, ...]] = []
    held: list[OffsetRange] = []
    held_bytes = 0.0
    for piece in pieces:
        size = _bytes(piece, offset_bytes)
        if held and held_bytes + size > most_bytes:
            made.append(tuple(held))
            held, held_bytes = [], 0.0
        held.append(piece)
        held_bytes += size
    return [*made, tuple(held)] if held else made
