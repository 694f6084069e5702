"""Ranges of offsets without what a filter excludes, before anything is read. Pure.

Invariant: every record for which the filter is true stays in the ranges.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kpybroker.machines.scan.filters import Filter, Literal, interval, may_hold
from kpybroker.machines.scan.ranges import OffsetRange, Spot

MICROSECONDS: Final = 1000
"""In a millisecond, the unit of Kafka's timestamps."""


def pruned(parts: Iterable[OffsetRange], condition: Filter | None) -> list[OffsetRange]:
    """The ranges without partitions and offsets for which the filter cannot be true."""
    kept = []
    for part in parts:
        known = _known(part)
        offsets = interval(condition, "offset", known)
        if not may_hold(condition, known) or offsets.is_empty:
            continue
        start = part.start_offset if offsets.low is None else max(part.start_offset, offsets.low)
        end = part.end_offset if offsets.high is None else min(part.end_offset, offsets.high + 1)
        if start < end:
            kept.append(part._replace(start_offset=start, end_offset=end))
    return kept


def earliest_times_ms(parts: Iterable[OffsetRange], condition: Filter | None) -> dict[Spot, int]:
    """The time before which no record of a partition is wanted, for partitions where there is one."""
    times = {}
    for part in parts:
        low = interval(condition, "timestamp", _known(part)).low
        if low is not None and low > 0:
            times[part.spot] = -(-low // MICROSECONDS)
    return times


def from_times(parts: Iterable[OffsetRange], found: Mapping[Spot, int]) -> list[OffsetRange]:
    """The ranges from the first offset on whose record is late enough: ``found``, -1 where no record is."""
    kept = []
    for part in parts:
        first = found.get(part.spot, part.start_offset)
        if 0 <= first < part.end_offset:
            kept.append(part._replace(start_offset=max(part.start_offset, first)))
    return kept


def _known(part: OffsetRange) -> Mapping[str, Literal]:
    return {"topic": part.topic, "partition": part.partition}
