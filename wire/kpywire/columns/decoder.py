"""A decoder of one partition's batches into Arrow record batches.

Sections are gathered until there are enough bytes or rows; then their records are decoded, those that are alike and those
that are not on ways of their own.

Invariant: the rows are the records that `kpywire.record.read_batch` reads, in the order of the log, within the wanted
offsets and without the batches that `Aborted` leaves out. Any bytes give rows or raise Malformed. The memory that is
held is in proportion to the bytes that were given and inflated.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpywire.aborted import Aborted
from kpywire.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, batch_headers, check_crc
from kpywire.columns.alike import Alike, AlikeRows
from kpywire.columns.schema import TYPES, schema_of
from kpywire.columns.stretches import stretches
from kpywire.columns.walked import Walked, WalkedRows
from kpywire.compression import decompress
from kpywire.errors import Malformed
from kpywire.record import MAX_INFLATED_BYTES
from kpywire.varint import Buffer

NO_END: Final = (1 << 63) - 1
MICROSECONDS: Final = 1000
LATEST_MS: Final = NO_END // MICROSECONDS

MOST_ROWS: Final = 32_768
MOST_BYTES: Final = 1024 * 1024
"""A record batch is made of about this many rows or bytes, and is at most about twice as large. The bytes are few enough
to stay in a core's cache until they are rows."""


class Place(NamedTuple):
    """The partition whose records are decoded."""

    topic: str
    partition: int


def every_batch(_header: BatchHeader) -> bool:
    """Admit all batches."""
    return True


class _Part(NamedTuple):
    """Records that were found and not decoded yet."""

    records: Alike | Walked
    header: BatchHeader


def combined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of all these batches in one; in more if they are too large for one, in none if there are none."""
    return batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()


class Decoder:
    """Takes batches, gives rows."""

    def __init__(
        self,
        place: Place,
        columns: Sequence[str],
        *,
        start_offset: int = 0,
        end_offset: int = NO_END,
        admits: Callable[[BatchHeader], bool] = every_batch,
        checks_crcs: bool = True,
        max_inflated_bytes: int = MAX_INFLATED_BYTES,
    ) -> None:
        """Rows have offsets in ``start_offset .. end_offset``, half-open. Batches that ``admits`` denies have none."""
        self._place = place
        self._columns = tuple(columns)
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._admits = admits
        self._checks_crcs = checks_crcs
        self._max_inflated_bytes = max_inflated_bytes
        self._parts: list[_Part] = []
        self.next_offset = start_offset
        """The offset behind the last batch that was taken, whether it had rows or not."""
        self._rows = 0
        self._held_bytes = 0
        self._constants: dict[str, tuple[str | int, pa.Array]] = {}

    def decode(self, data: Buffer, aborted: Aborted) -> Iterator[pa.RecordBatch]:
        """The rows of all whole batches in ``data``, as far as there are enough for a record batch; `take` has the
        rest. A batch that is cut off at the end is left out. Raises Malformed."""
        for position, header in batch_headers(data):
            if header.base_offset >= self._end_offset:
                return
            if header.next_offset > self._start_offset:
                if self._checks_crcs and not check_crc(data, header, position):
                    raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
                if not aborted.skips(data, header, position) and self._admits(header):
                    self._find(data, header, position)
            self.next_offset = max(self.next_offset, header.next_offset)
            if self._rows >= MOST_ROWS or self._held_bytes >= MOST_BYTES:
                yield from self.take()

    def _find(self, data: Buffer, header: BatchHeader, position: int) -> None:
        section = memoryview(data)[position + HEADER_BYTES : position + header.size]
        if header.codec:
            section = memoryview(decompress(header.codec, section, self._max_inflated_bytes))
        found = [_Part(records, header) for records in stretches(section, header.record_count)]
        if found:
            self._parts += found
            self._rows += header.record_count
            self._held_bytes += len(section)

    def take(self) -> Iterator[pa.RecordBatch]:
        """The rows that were found and not given yet. Raises Malformed."""
        parts, self._parts = self._parts, []
        held_bytes, self._rows, self._held_bytes = self._held_bytes, 0, 0
        if not parts:
            return
        kinds = groupby(parts, lambda part: type(part.records))
        for rows in combined([self._decoded(list(group)) for _, group in kinds]):
            pieces = max(-(-held_bytes // (2 * MOST_BYTES)), -(-rows.num_rows // (2 * MOST_ROWS)))
            rows_each = -(-rows.num_rows // max(pieces, 1))
            for first in range(0, rows.num_rows, max(rows_each, 1)):
                yield rows.slice(first, rows_each)

    def _decoded(self, parts: list[_Part]) -> pa.RecordBatch:
        """The rows of records that are all of one kind."""
        records = [part.records for part in parts]
        rows: Any = AlikeRows(records) if isinstance(records[0], Alike) else WalkedRows(records)
        headers = [part.header for part in parts]
        offsets = np.repeat([header.base_offset for header in headers], rows.counts) + rows.offset_deltas
        columns = [self._column(name, headers, rows, offsets) for name in self._columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._columns))
        if self._start_offset <= offsets.min() and offsets.max() < self._end_offset:
            return batch
        return batch.filter(pa.array((self._start_offset <= offsets) & (offsets < self._end_offset)))

    def _column(
        self, name: str, headers: list[BatchHeader], rows: AlikeRows | WalkedRows, offsets: NDArray[np.int64]
    ) -> pa.Array:
        match name:
            case "key":
                return rows.keys()
            case "value":
                return rows.values()
            case "topic":
                return self._constant(name, self._place.topic, len(offsets))
            case "partition":
                return self._constant(name, self._place.partition, len(offsets))
            case "offset":
                return pa.array(offsets)
            case "timestamp":
                return pa.array(_timestamps(headers, rows)).view(TYPES[name])
            case "timestampType":
                return self._of_batches(name, [header.timestamp_type for header in headers], rows.counts)
            case "leaderEpoch":
                return self._of_batches(name, [header.partition_leader_epoch for header in headers], rows.counts)
        return rows.headers()

    def _of_batches(self, name: str, values: list[int], counts: list[int]) -> pa.Array:
        """A value of each batch, for each of its records."""
        if len(set(values)) == 1:
            return self._constant(name, values[0], sum(counts))
        return pa.array(np.repeat(np.array(values, np.int32), counts))

    def _constant(self, name: str, value: str | int, count: int) -> pa.Array:
        """A column that has one value. It is kept, since the next rows have the same one as a rule."""
        known, column = self._constants.get(name, (None, None))
        if column is None or known != value or len(column) < count:
            column = pa.repeat(pa.scalar(value, TYPES[name]), count)
            self._constants[name] = value, column
        return column.slice(0, count)


def _timestamps(headers: list[BatchHeader], rows: AlikeRows | WalkedRows) -> NDArray[np.int64]:
    """The timestamps in microseconds; those that no microsecond of 64 bits can express are the nearest that can."""
    timestamps = np.repeat([header.base_timestamp for header in headers], rows.counts) + rows.timestamp_deltas
    if any(header.timestamp_type == LOG_APPEND_TIME for header in headers):
        appended = np.repeat([header.timestamp_type == LOG_APPEND_TIME for header in headers], rows.counts)
        timestamps = np.where(appended, np.repeat([header.max_timestamp for header in headers], rows.counts), timestamps)
    microseconds: NDArray[np.int64] = np.clip(timestamps, -LATEST_MS, LATEST_MS) * MICROSECONDS
    return microseconds
