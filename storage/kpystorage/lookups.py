"""Finding records by time, and aborted transactions, across the segments of a log."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kpystorage.segment import Segment
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire import time_search
from kpywire.walk import ANY_SIZE

Search = time_search.Search
EXACT: Final[Search] = time_search.first_not_older
"""The search of a batch, however long it takes."""


class OffsetForTimestamp(NamedTuple):
    """The place of a record found by time: its timestamp, offset and leader epoch (-1 if its batch has none)."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(
    segments: Sequence[Segment],
    timestamp: int,
    local_log_start_offset: int,
    search: Search = EXACT,
    most_record_bytes: int = ANY_SIZE,
) -> OffsetForTimestamp | None:
    """The first record at or behind ``local_log_start_offset`` that is not older than ``timestamp``."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            found = segment.find_timestamp(timestamp, local_log_start_offset, search, most_record_bytes)
            return OffsetForTimestamp(*found) if found else None
    return None


def max_timestamp_offset(
    segments: Sequence[Segment], search: Search = EXACT, most_record_bytes: int = ANY_SIZE
) -> OffsetForTimestamp | None:
    """The first record with the largest timestamp of all."""
    latest = max(segments, key=lambda segment: segment.max_timestamp.timestamp)
    found = latest.find_max_timestamp(search, most_record_bytes)
    return OffsetForTimestamp(*found) if found else None


def aborted_transactions(segments: Sequence[Segment], offset: int, end_offset: int) -> list[TransactionIndexEntry]:
    """The aborted transactions with records in ``offset .. end_offset``; ``segments`` are those from ``offset`` on."""
    found: list[TransactionIndexEntry] = []
    for segment in segments:
        overlapping, complete = segment.transaction_index.overlapping(offset, end_offset)
        found += overlapping
        if complete:
            break
    return found


def aborted_within(
    segments: Sequence[Segment], offset: int, end_position: int, log_end_offset: int
) -> list[TransactionIndexEntry]:
    """The aborted transactions of a read at ``offset`` that ends at ``end_position`` of the first segment it found.

    The offset index gives the end of the read, so a few transactions that begin behind it may be listed, and
    where there is no entry all of the segment's are (Kafka: ``LocalLog.addAbortedTransactions``).
    """
    if all(segment.transaction_index.file is None for segment in segments):
        return []
    for number, segment in enumerate(segments):
        if _reaches(segment, offset):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else log_end_offset
            behind = segment.offset_index.first_from(end_position)
            return aborted_transactions(segments[number:], offset, following if behind is None else behind)
    return []


def _reaches(segment: Segment, offset: int) -> bool:
    """Whether a batch of the segment holds ``offset`` or lies behind it. Its index often suffices."""
    index = segment.offset_index
    return (len(index) > 0 and index.last_offset >= offset) or segment.find(offset, segment.size) is not None
