"""A decoder of one partition's batches into Arrow record batches.

Sections are gathered until there are enough rows; then all their records are decoded together, field by field.

Invariant: the rows are the records that `kpywire.record.read_batch` reads, in the order of the log, within the wanted
offsets and without the batches that `Aborted` leaves out. Any bytes give rows or raise Malformed. The memory that is
held is in proportion to the bytes that were given and inflated.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpywire.aborted import Aborted
from kpywire.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, batch_headers, check_crc
from kpywire.columns import arrays
from kpywire.columns.layout import Layouts, SectionLayout
from kpywire.columns.record_positions import record_positions
from kpywire.columns.schema import HEADERS, KEY, TIMESTAMP, TYPES, VALUE, schema_of
from kpywire.columns.sections import RecordFields, fields_of
from kpywire.columns.varints import Bytes
from kpywire.compression import decompress
from kpywire.errors import Malformed
from kpywire.record import MAX_INFLATED_BYTES
from kpywire.varint import Buffer

NO_END: Final = (1 << 63) - 1
MICROSECONDS: Final = 1000
LATEST_MS: Final = NO_END // MICROSECONDS

MOST_ROWS: Final = 32_768
MOST_BYTES: Final = 2 * 1024 * 1024
"""A record batch is made of about this many rows or bytes, and is at most about twice as large. They are few enough to
stay in the processor's cache until they are rows, and enough to make the cost of a record batch itself small."""
READ_FROM_RECORDS: Final = frozenset((KEY, VALUE, TIMESTAMP, HEADERS))
"""The columns whose values are in the bytes of a section that has a layout."""
LARGE_BYTES: Final = 16 * 1024
"""Sections of at least this size are bare where no bytes are needed. Smaller ones cost more apart than together."""
ENOUGH_BYTES: Final = MOST_BYTES // 4
"""Sections of at least this size are decoded before the next buffer comes. Smaller ones are copied, so that few of them
do not keep a large buffer."""


class DecodedPartition(NamedTuple):
    """The partition whose records are decoded."""

    topic: str
    partition: int


def every_batch(_header: BatchHeader) -> bool:
    """Admit all batches."""
    return True


class _Part(NamedTuple):
    """A batch whose records were found and not decoded yet."""

    buffer: Buffer
    start: int
    end: int
    """The end of its section in the buffer, which begins at ``start``."""
    positions: list[NDArray[np.int64]]
    """The positions of its records in the section."""
    layout: SectionLayout | None
    header: BatchHeader

    @property
    def is_bare(self) -> bool:
        """Whether its layout says all that is wanted, so that it has no bytes."""
        return not self.end

    def alone(self) -> "_Part":
        """The same with a buffer that has only the section."""
        if self.is_bare:
            return self
        section = bytes(memoryview(self.buffer)[self.start : self.end])
        return self._replace(buffer=section, start=0, end=len(section))


def combined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of all these batches in one; in more if they are too large for one, in none if there are none."""
    return batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()


class Decoder:
    """Takes batches, gives rows."""

    def __init__(
        self,
        place: DecodedPartition,
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
        self._needs_bytes = not READ_FROM_RECORDS.isdisjoint(columns)
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._admits = admits
        self._checks_crcs = checks_crcs
        self._max_inflated_bytes = max_inflated_bytes
        self._parts: list[_Part] = []
        self._layouts = Layouts()
        self.next_offset = start_offset
        """The offset behind the last batch that was taken, whether it had rows or not."""
        self._rows = 0
        self._held_bytes = 0
        self._constants: dict[str, tuple[str | int, pa.Array]] = {}

    def decode(self, data: Buffer, aborted: Aborted) -> Iterator[pa.RecordBatch]:
        """The rows of all whole batches in ``data``, as far as there are enough for a record batch; `take` has the
        rest. A batch that is cut off at the end is left out. Raises Malformed."""
        held = len(self._parts)
        for position, header in batch_headers(data):
            if header.base_offset >= self._end_offset:
                break
            if header.next_offset > self._start_offset:
                if self._checks_crcs and not check_crc(data, header, position):
                    raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
                if not aborted.skips(data, header, position) and self._admits(header):
                    self._find(data, header, position)
            self.next_offset = max(self.next_offset, header.next_offset)
            if self._rows >= MOST_ROWS or self._held_bytes >= MOST_BYTES:
                yield from self.take()
                held = 0
        if self._held_bytes >= ENOUGH_BYTES:
            yield from self.take()
        self._parts[held:] = [part.alone() for part in self._parts[held:]]

    def _find(self, data: Buffer, header: BatchHeader, position: int) -> None:
        buffer, start, end = data, position + HEADER_BYTES, position + header.size
        if header.codec:
            buffer = decompress(header.codec, memoryview(data)[start:end], self._max_inflated_bytes)
            start, end = 0, len(buffer)
        layout = self._layouts.of(buffer, start, end, header.record_count)
        found = [layout.positions] if layout else record_positions(buffer, start, end, header.record_count)
        if found:
            if layout and not self._needs_bytes and end - start >= LARGE_BYTES:
                buffer, start, end = b"", 0, 0
            self._parts.append(_Part(buffer, start, end, found, layout, header))
            self._rows += header.record_count
            self._held_bytes += end - start

    def take(self) -> Iterator[pa.RecordBatch]:
        """The rows that were found and not given yet. Raises Malformed."""
        parts, self._parts = self._parts, []
        held_bytes, self._rows, self._held_bytes = self._held_bytes, 0, 0
        if not parts:
            return
        decoded = self._decoded(parts)
        pieces = max(-(-held_bytes // (2 * MOST_BYTES)), -(-decoded.num_rows // (2 * MOST_ROWS)))
        rows_each = -(-decoded.num_rows // max(pieces, 1))
        for first in range(0, decoded.num_rows, max(rows_each, 1)):
            yield decoded.slice(first, rows_each)

    def _decoded(self, parts: list[_Part]) -> pa.RecordBatch:
        buffer, starts = _in_one_buffer(parts)
        fields = _fields(parts, np.frombuffer(buffer, np.uint8), starts, self._columns)
        offsets = _of_batches(parts, [part.header.base_offset for part in parts]) + fields.offset_deltas
        columns = [self._column(name, pa.py_buffer(buffer), parts, fields, offsets) for name in self._columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._columns))
        if self._start_offset <= offsets.min() and offsets.max() < self._end_offset:
            return rows
        return rows.filter(arrays.booleans((self._start_offset <= offsets) & (offsets < self._end_offset)))

    def _column(
        self, name: str, buffer: pa.Buffer, parts: list[_Part], fields: RecordFields, offsets: NDArray[np.int64]
    ) -> pa.Array:
        count = len(offsets)
        match name:
            case "key":
                return arrays.byte_strings(buffer, fields.keys)
            case "value":
                return arrays.byte_strings(buffer, fields.values)
            case "topic":
                return self._constant(name, self._place.topic, count)
            case "partition":
                return self._constant(name, self._place.partition, count)
            case "offset":
                return arrays.numbers(offsets, TYPES[name])
            case "timestamp":
                return arrays.numbers(_timestamps(parts, fields), TYPES[name])
            case "timestampType":
                return self._of_batches(name, parts, [part.header.timestamp_type for part in parts])
            case "leaderEpoch":
                return self._of_batches(name, parts, [part.header.partition_leader_epoch for part in parts])
        return arrays.headers(buffer, fields.header_counts, fields.header_keys, fields.header_values)

    def _of_batches(self, name: str, parts: list[_Part], values: Sequence[int]) -> pa.Array:
        """A column with a value of each batch."""
        if len(set(values)) == 1:
            return self._constant(name, values[0], sum(part.header.record_count for part in parts))
        return arrays.numbers(_of_batches(parts, values).astype(np.int32), TYPES[name])

    def _constant(self, name: str, value: str | int, count: int) -> pa.Array:
        """A column that has one value. It is kept, since the next rows have the same one as a rule."""
        known, column = self._constants.get(name, (None, None))
        if column is None or known != value or len(column) < count:
            column = arrays.repeated(value, TYPES[name], count)
            self._constants[name] = value, column
        return column.slice(0, count)


def _in_one_buffer(parts: Sequence[_Part]) -> tuple[Buffer, list[int]]:
    """A buffer that has the sections of all parts, and where each begins. They are copied only if they are in
    several."""
    buffer = parts[0].buffer
    if all(part.buffer is buffer for part in parts):
        return buffer, [part.start for part in parts]
    sections = [memoryview(part.buffer)[part.start : part.end] for part in parts]
    return b"".join(sections), list(accumulate(map(len, sections[:-1]), initial=0))


def _fields(parts: Sequence[_Part], data: Bytes, starts: Sequence[int], columns: Sequence[str]) -> RecordFields:
    """The fields of all records, as far as ``columns`` need them. ``starts`` are those of the sections in ``data``."""
    found = []
    placed = zip(parts, starts, strict=True)
    for _, group in groupby(placed, lambda each: each[0].layout if each[0].is_bare else None):
        some, their_starts = zip(*group, strict=True)
        found.append(_fields_of_some(some, data, their_starts, columns))
    if len(found) == 1:
        return found[0]
    return found[0]._replace(offset_deltas=np.concatenate([fields.offset_deltas for fields in found]))


def _fields_of_some(parts: Sequence[_Part], data: Bytes, starts: Sequence[int], columns: Sequence[str]) -> RecordFields:
    """The fields of records whose parts all have bytes, or one layout."""
    layout = parts[0].layout
    if layout is not None and all(part.layout is layout for part in parts):
        return layout.fields_in(data, starts, columns)
    found = [piece + start for part, start in zip(parts, starts, strict=True) for piece in part.positions]
    positions = np.concatenate(found)
    ends = np.append(positions[1:], 0)
    last_ones = np.cumsum([part.header.record_count for part in parts]) - 1
    ends[last_ones] = [start + part.end - part.start for part, start in zip(parts, starts, strict=True)]
    return fields_of(data, positions, ends)


def _of_batches(parts: list[_Part], values: Sequence[int]) -> NDArray[np.int64]:
    """A value of each batch, for each of its records."""
    return np.repeat(np.array(values, np.int64), [part.header.record_count for part in parts])


def _timestamps(parts: list[_Part], fields: RecordFields) -> NDArray[np.int64]:
    """The timestamps in microseconds; those that no microsecond of 64 bits can express are the nearest that can."""
    timestamps = _of_batches(parts, [part.header.base_timestamp for part in parts]) + fields.timestamp_deltas
    if any(part.header.timestamp_type == LOG_APPEND_TIME for part in parts):
        appended = _of_batches(parts, [part.header.timestamp_type for part in parts]) == LOG_APPEND_TIME
        timestamps = np.where(appended, _of_batches(parts, [part.header.max_timestamp for part in parts]), timestamps)
    microseconds: NDArray[np.int64] = np.clip(timestamps, -LATEST_MS, LATEST_MS) * MICROSECONDS
    return microseconds
