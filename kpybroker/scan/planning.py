"""Ranges of offsets made into tasks of a good size, whatever the number of partitions. Pure.

Invariant: the tasks have each offset of the ranges once. The parts of a partition are in order.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from kpybroker.scan.ranges import Range, Spot

SMALL_PART: Final = 8
"""Ranges are put together into a task as long as that has at most this part of ``task_bytes``: reading it takes about
as long as starting a task."""
MOST_TASKS: Final = 100_000
ENOUGH_TASKS: Final = 16
"""A plan of more tasks than that has larger ones, up to ``largest_task_bytes``: Spark takes 12 ms of CPU to start and
end one."""


class Sizes(NamedTuple):
    """How tasks are cut."""

    task_bytes: int
    largest_task_bytes: int = 0
    """The bytes of the tasks of a large plan, if that is more than ``task_bytes``."""
    min_tasks: int | None = None
    """Spark's minPartitions: at least about this many tasks."""
    max_records: int | None = None
    """Spark's maxRecordsPerPartition: the most offsets of a task."""


def tasks(ranges: Iterable[Range], offset_bytes: Mapping[Spot, float], sizes: Sizes) -> list[tuple[Range, ...]]:
    """The ranges of each task. ``offset_bytes`` is the mean size of an offset in each partition."""
    there = [each for each in ranges if each.offsets > 0]
    total_bytes = sum(part.offsets * offset_bytes.get(part.spot, 0.0) for part in there)
    task_bytes = max(sizes.task_bytes, min(total_bytes / ENOUGH_TASKS, sizes.largest_task_bytes))
    pieces = []
    for part in there:
        count = ceil(part.offsets * offset_bytes.get(part.spot, 0.0) / task_bytes)
        if sizes.max_records is not None:
            count = max(count, ceil(part.offsets / sizes.max_records))
        pieces += cut(part, min(count, MOST_TASKS))
    if sizes.min_tasks is not None and sizes.min_tasks > len(pieces):
        pieces = _at_least(pieces, sizes.min_tasks)
    if sizes.min_tasks is not None or sizes.max_records is not None:
        return [(piece,) for piece in pieces]
    return _together(pieces, offset_bytes, sizes.task_bytes / SMALL_PART)


def cut(part: Range, count: int) -> list[Range]:
    """A range in ``count`` parts of about equal length, fewer where it has fewer offsets."""
    count = max(min(count, part.offsets), 1)
    ends = [part.start_offset + part.offsets * number // count for number in range(count + 1)]
    return [part._replace(start_offset=start, end_offset=end) for start, end in pairwise(ends)]


def _at_least(pieces: Sequence[Range], wanted: int) -> list[Range]:
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
    pieces: Iterable[Range], offset_bytes: Mapping[Spot, float], most_bytes: float
) -> list[tuple[Range, ...]]:
    """Small pieces put together, in their order. Large ones stay alone."""
    made: list[tuple[Range, ...]] = []
    held: list[Range] = []
    held_bytes = 0.0
    for piece in pieces:
        size = piece.offsets * offset_bytes.get(piece.spot, 0.0)
        if held and held_bytes + size > most_bytes:
            made.append(tuple(held))
            held, held_bytes = [], 0.0
        held.append(piece)
        held_bytes += size
    return [*made, tuple(held)] if held else made
