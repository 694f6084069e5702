"""How far the next micro-batch of a stream reads: limits by offsets and bytes, and waiting for enough of them. Pure.

Invariant: an end lies between the start and the latest offset of its partition, and a limit above zero lets a stream
go on.
"""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from kpybroker.machines.lag import lag_in_records
from kpybroker.machines.scan.ranges import Spot

Offsets = Mapping[Spot, int]


class AdmissionLimits(NamedTuple):
    """The limits of a micro-batch; None for no limit."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_ms: float = inf
    """How long to wait at most for ``min_offsets``."""


def is_due(start: Offsets, latest: Offsets, limits: AdmissionLimits, waited_ms: float) -> bool:
    """Whether the next micro-batch is due, after the time since the last one."""
    if limits.min_offsets is None or waited_ms >= limits.max_delay_ms:
        return True
    return sum(_lengths(start, latest).values()) >= limits.min_offsets


def admitted(
    start: Offsets, latest: Offsets, limits: AdmissionLimits, offset_bytes: Mapping[Spot, float]
) -> dict[Spot, int]:
    """The end of the next micro-batch in each partition of ``latest``. ``start`` has them all; ``offset_bytes`` is the
    mean size of an offset."""
    lengths = _lengths(start, latest)
    if limits.max_offsets is not None:
        lengths = shared(limits.max_offsets, lengths)
    if limits.max_bytes is not None:
        lengths = _within_bytes(limits.max_bytes, lengths, offset_bytes)
    return {spot: start[spot] + lengths[spot] if spot in lengths else end for spot, end in latest.items()}


def _lengths(start: Offsets, latest: Offsets) -> dict[Spot, int]:
    """The offsets that wait in each partition that has any."""
    return {spot: lag_in_records(end, start[spot]) for spot, end in latest.items() if end > start.get(spot, end)}


def shared(limit: int, lengths: Mapping[Spot, int]) -> dict[Spot, int]:
    """``limit`` offsets in all, shared in proportion to what waits. Nothing is left over while a partition has more."""
    total = sum(lengths.values())
    if total <= limit:
        return dict(lengths)
    parts = {spot: length * limit // total for spot, length in lengths.items()}
    rests = sorted(lengths, key=lambda spot: (-(lengths[spot] * limit % total), spot))
    for spot in rests[: limit - sum(parts.values())]:
        parts[spot] += 1
    return parts


def _within_bytes(limit: int, lengths: Mapping[Spot, int], offset_bytes: Mapping[Spot, float]) -> dict[Spot, int]:
    """About ``limit`` bytes in all, at least one offset."""
    total = sum(length * offset_bytes.get(spot, 0.0) for spot, length in lengths.items())
    if total <= limit:
        return dict(lengths)
    part = limit / total
    return shared(max(int(sum(lengths.values()) * part), 1), lengths)
