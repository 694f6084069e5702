"""Finding records by time, and aborted transactions, across the segments of a log."""

from collections.abc import Sequence
from typing import NamedTuple

from kpystorage.segment import Segment
from kpystorage.transaction_index import AbortedTransaction


class OffsetForTimestamp(NamedTuple):
    """Where a record of a time is: its timestamp, offset and leader epoch (-1 if its batch has none)."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(
    segments: Sequence[Segment], timestamp: int, log_start_offset: int
) -> OffsetForTimestamp | None:
    """The first record at or behind ``log_start_offset`` that is not older than ``timestamp``."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            found = segment.find_timestamp(timestamp, log_start_offset)
            return OffsetForTimestamp(*found) if found else None
    return None


def max_timestamp_offset(segments: Sequence[Segment]) -> OffsetForTimestamp | None:
    """The first record with the largest timestamp of all."""
    found = max(segments, key=lambda segment: segment.max_timestamp.timestamp).find_max_timestamp()
    return OffsetForTimestamp(*found) if found else None


def aborted_transactions(segments: Sequence[Segment], offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in ``offset .. end_offset``; ``segments`` are those from ``offset`` on."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        overlapping, complete = segment.transaction_index.overlapping(offset, end_offset)
        found += overlapping
        if complete:
            break
    return found
