"""The segments of one log, and the batches and index entries of one segment. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys
from kpybroker.machines.console.retention import RetentionDeletion
from kpywire.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BATCHES_PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One segment."""

    base_offset: int
    next_offset: int
    bytes: int
    largest_timestamp_ms: int
    index_entries: int
    time_index_entries: int
    is_active: bool
    is_expendable: bool


SEGMENT_KEYS: Final[Keys[SegmentRow]] = {
    "first": lambda row: row.base_offset,
    "next": lambda row: row.next_offset,
    "size": lambda row: row.bytes,
    "time": lambda row: row.largest_timestamp_ms,
    "index": lambda row: row.index_entries,
    "times": lambda row: row.time_index_entries,
    "state": lambda row: (row.is_active, row.is_expendable),
}
"""The columns by which a viewer sorts the segments."""


@dataclass(frozen=True, slots=True)
class PartitionPage:
    """The log of a partition on this node."""

    topic: str
    partition: int
    path: str
    role: str
    start_offset: int
    high_watermark: int
    last_stable_offset: int
    end_offset: int
    recovery_point: int
    leader_epoch: int
    bytes: int
    deletion: RetentionDeletion
    segments: tuple[SegmentRow, ...]


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One batch, by its header."""

    position: int
    base_offset: int
    last_offset: int
    records: int
    bytes: int
    codec: str
    first_timestamp_ms: int
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    crc: str


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An entry of the offset index."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """An entry of the time index."""

    timestamp_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class SegmentPage:
    """Some batches of one segment, from a position on, and the entries of its indexes among them."""

    topic: str
    partition: int
    base_offset: int
    bytes: int
    position: int
    next_position: int | None
    """The position of the next batch that is not listed; None at the end."""
    batches: tuple[BatchRow, ...]
    index: tuple[IndexEntry, ...]
    time_index: tuple[TimeEntry, ...]


def batch_rows(headers: Iterable[tuple[int, BatchHeader]]) -> tuple[BatchRow, ...]:
    """The rows of these batches."""
    return tuple(_batch_row(position, header) for position, header in headers)


def _batch_row(position: int, header: BatchHeader) -> BatchRow:
    codec = CODECS[header.codec] if header.codec < len(CODECS) else f"unknown ({header.codec})"
    return BatchRow(
        position,
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.size,
        codec,
        header.base_timestamp,
        header.max_timestamp,
        header.partition_leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        bool(header.attributes & TRANSACTIONAL_MASK),
        bool(header.attributes & CONTROL_MASK),
        f"{header.crc & 0xFFFFFFFF:08x}",
    )
