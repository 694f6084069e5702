"""A decoder of one partition's batches into Arrow record batches.

Invariant: the rows are the records that `kpywire.record.read_batch` reads, in the order of the log, within the wanted
offsets and without the batches that `Aborted` leaves out. Any bytes give rows or raise Malformed. The memory that is
held is in proportion to the bytes that were given and inflated.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kpywire.aborted import Aborted
from kpywire.batch import BatchHeader, batch_headers, check_crc
from kpywire.columns.schema import TYPES, schema_of
from kpywire.errors import Malformed
from kpywire.record import MAX_INFLATED_BYTES, Record, read_batch
from kpywire.varint import Buffer

MICROSECONDS: Final = 1000


class Place(NamedTuple):
    """The partition whose records are decoded."""

    topic: str
    partition: int


class Decoder:
    """Takes batches, gives rows."""

    def __init__(
        self,
        place: Place,
        columns: Sequence[str],
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        checks_crcs: bool = True,
        max_inflated_bytes: int = MAX_INFLATED_BYTES,
    ) -> None:
        """Rows have offsets in ``start_offset .. end_offset``, half-open; without an end there is no bound."""
        self._place = place
        self._columns = tuple(columns)
        self._start_offset = start_offset
        self._end_offset = 1 << 63 if end_offset is None else end_offset
        self._checks_crcs = checks_crcs
        self._max_inflated_bytes = max_inflated_bytes
        self._records: list[tuple[Record, int]] = []
        self.next_offset = start_offset
        """The offset behind the last batch that was taken, whether it had rows or not."""
        self.held_bytes = 0
        """About the bytes of the rows that were decoded and not taken yet."""

    @property
    def rows(self) -> int:
        """The number of rows that were decoded and not taken yet."""
        return len(self._records)

    def add(self, data: Buffer, aborted: Aborted) -> None:
        """Decode all whole batches in ``data``; a cut-off one at the end is left out. Raises Malformed."""
        for position, header in batch_headers(data):
            if header.base_offset >= self._end_offset:
                return
            if header.next_offset > self._start_offset:
                if self._checks_crcs and not check_crc(data, header, position):
                    raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
                if not aborted.skips(data, header, position):
                    self._add(data, header, position)
            self.next_offset = max(self.next_offset, header.next_offset)

    def _add(self, data: Buffer, header: BatchHeader, position: int) -> None:
        for record in read_batch(data, header, position, self._max_inflated_bytes):
            if self._start_offset <= record.offset < self._end_offset:
                self._records.append((record, header.timestamp_type))
                self.held_bytes += len(record.key or b"") + len(record.value or b"")

    def take(self) -> pa.RecordBatch:
        """The rows so far, which the decoder forgets."""
        records, self._records, self.held_bytes = self._records, [], 0
        arrays = [pa.array(self._column(name, records), TYPES[name]) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(self._columns))

    def _column(self, name: str, records: list[tuple[Record, int]]) -> list[Any]:
        match name:
            case "key":
                return [record.key for record, _ in records]
            case "value":
                return [record.value for record, _ in records]
            case "topic":
                return [self._place.topic] * len(records)
            case "partition":
                return [self._place.partition] * len(records)
            case "offset":
                return [record.offset for record, _ in records]
            case "timestamp":
                return [record.timestamp * MICROSECONDS for record, _ in records]
            case "timestampType":
                return [timestamp_type for _, timestamp_type in records]
        return [[{"key": k, "value": v} for k, v in record.headers] or None for record, _ in records]
