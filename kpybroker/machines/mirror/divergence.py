"""The offset where the log of a topic here and that of its source diverge, and the records from there on.

Both logs have the same records up to the end of the latest leader epoch that both know, where that ends first: an epoch
has one leader, so at an offset there is one record of it (KIP-101). Where the source does not know any more what it had
at offsets of this log, all records of this one count as different.

Invariant: no record before the divergence is missing at the source, except those that its retention deleted.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

UNDEFINED_EPOCH: Final = -1


class EpochEnd(NamedTuple):
    """The largest leader epoch of a log up to one that was asked for, and the offset where it ends."""

    epoch: int
    end_offset: int


class ComparedBounds(NamedTuple):
    """The offsets at which a log here begins and ends, and at which its source's begins."""

    start: int
    end: int
    source_start: int


class AskHere(NamedTuple):
    """The comparison goes on with the end of this epoch here."""

    epoch: int


class ExportedPart(NamedTuple):
    """The part of a partition that its source lacks: the records from ``first_offset`` up to ``end_offset``."""

    partition: int
    first_offset: int
    end_offset: int
    epoch: int
    """The leader epoch of the last of them."""
    records: int
    """Their number. Control records and what was compacted is not counted."""


def compared(here: EpochEnd, there: EpochEnd, bounds: ComparedBounds) -> int | AskHere:
    """The offset from which on a log has what its source lacks, or the next question. ``there`` is the source's answer
    for the epoch of ``here``."""
    if bounds.start >= bounds.end:
        return bounds.end
    if there.epoch == UNDEFINED_EPOCH or there.end_offset <= bounds.source_start:
        return bounds.start
    if there.epoch < here.epoch:
        return AskHere(there.epoch)
    return max(min(here.end_offset, there.end_offset), bounds.start)


def exported_text(parts: Iterable[ExportedPart]) -> str:
    """The value of ``kpybroker.mirror.exported``."""
    return ",".join(":".join(map(str, each)) for each in parts)


def exported_parts(text: str) -> dict[int, ExportedPart]:
    """The parts that a value of ``kpybroker.mirror.exported`` lists, by their partitions. ValueError."""
    found = {}
    for entry in filter(None, text.split(",")):
        partition, first_offset, end_offset, epoch, records = map(int, entry.split(":"))
        found[partition] = ExportedPart(partition, first_offset, end_offset, epoch, records)
    return found
