"""The copies of a partition in a store that a scan reads, as a plan hands them to its tasks. Pure, and can be pickled.

Invariant: the ranges of a partition touch one another, ascend, and are all of the history that its leader had.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.remote_log.lineage import CopiedRange
from kpybroker.machines.scan.ranges import OffsetRange, Spot

MOST_FOLLOWING: Final = 8
"""The copies behind those of a task in which it searches the ends of transactions."""


class CopiedPartition(NamedTuple):
    """The copies of one partition."""

    ranges: tuple[CopiedRange, ...]
    end_offset: int
    """Records below it are read from the store, even if more are there."""
    with_transactions: tuple[CopiedRange, ...] = ()
    """The copies, behind the end as well, whose transaction indexes may name aborted transactions."""

    @property
    def start_offset(self) -> int:
        """The first offset that is read from the store."""
        return self.ranges[0].start_offset

    @property
    def offset_bytes(self) -> float:
        """The mean size of an offset."""
        size_bytes = sum(each.segment.size_bytes for each in self.ranges)
        return size_bytes / sum(each.segment.next_offset - each.segment.start_offset for each in self.ranges)

    def only(self, start_offset: int, end_offset: int) -> "CopiedPartition | None":
        """The part of it that a reader of these offsets needs; None if they lie behind it."""
        end_offset = min(end_offset, self.end_offset)
        if not self.start_offset <= start_offset < end_offset:
            return None
        first = bisect_right(self.ranges, start_offset, key=_start) - 1
        behind = bisect_left(self.ranges, end_offset, key=_start)
        begin = bisect_left(self.with_transactions, self.ranges[first].start_offset, key=_start)
        end = bisect_left(self.with_transactions, end_offset, key=_start) + MOST_FOLLOWING
        return CopiedPartition(self.ranges[first:behind], end_offset, self.with_transactions[begin:end])


class CopiedPartitions(NamedTuple):
    """The copies of the partitions of a plan."""

    partitions: Mapping[Spot, CopiedPartition]

    def only(self, parts: Iterable[OffsetRange]) -> "CopiedPartitions":
        """The part of it that a task with these ranges needs."""
        found: dict[Spot, CopiedPartition] = {}
        for spot, (start, end) in bounds_of(parts).items():
            mine = self.partitions[spot].only(start, end) if spot in self.partitions else None
            if mine is not None:
                found[spot] = mine
        return CopiedPartitions(found)

    def offset_bytes(self) -> dict[Spot, float]:
        """The mean size of an offset in each partition."""
        return {spot: each.offset_bytes for spot, each in self.partitions.items()}

    def rest(self, parts: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The ranges without what is read from the store."""
        found = []
        for part in parts:
            copied = self.partitions.get(part.spot)
            if copied is not None and copied.start_offset <= part.start_offset:
                part = part._replace(start_offset=max(part.start_offset, copied.end_offset))
            if part.start_offset < part.end_offset:
                found.append(part)
        return found


def bounds_of(parts: Iterable[OffsetRange]) -> dict[Spot, tuple[int, int]]:
    """The first and the last end of the ranges of each partition."""
    found: dict[Spot, tuple[int, int]] = {}
    for part in parts:
        start, end = found.get(part.spot, (part.start_offset, part.end_offset))
        found[part.spot] = min(start, part.start_offset), max(end, part.end_offset)
    return found


def copied_partition(copies: Iterable[CopiedRange], end_offset: int, *, committed_only: bool) -> CopiedPartition | None:
    """The copies with offsets below an end, from an iterator of all; None if there is none. Those behind it are taken
    for their transaction indexes, if ``committed_only``."""
    ranges: list[CopiedRange] = []
    with_transactions: list[CopiedRange] = []
    following = 0
    for each in copies:
        if each.start_offset < end_offset:
            ranges.append(each)
        elif not committed_only or following == MOST_FOLLOWING:
            break
        if committed_only and not each.segment.is_transaction_index_empty:
            with_transactions.append(each)
            following += each.start_offset >= end_offset
    if not ranges:
        return None
    return CopiedPartition(tuple(ranges), min(end_offset, ranges[-1].end_offset), tuple(with_transactions))


def _start(copy: CopiedRange) -> int:
    return copy.start_offset
