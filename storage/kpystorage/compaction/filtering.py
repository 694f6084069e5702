"""The second half of a pass: which batches stay, whole or with fewer records (MemoryRecords.filterTo and the filter of
Kafka's Cleaner).

Invariant: offsets never change; a batch of which everything stays keeps its bytes.
"""

from collections.abc import Mapping as ReadMapping
from typing import Final

from kpystorage.compaction.batches import Section, check, control_kind
from kpystorage.compaction.marks import KEYLESS_BYTE, NEWEST_BYTE, SUPERSEDED_BYTE, Marks
from kpystorage.compaction.offset_map import OffsetMap
from kpystorage.compaction.rewriting import emptied, thinned
from kpystorage.compaction.surveying import Survey
from kpystorage.compaction.task import LastRecord
from kpystorage.compaction.transactions import CleanedTransactions
from kpystorage.compaction.writing import CleanedFiles
from kpywire.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kpywire.varint import as_int64

_unpack: Final = HEADER.unpack_from


class Filter:
    """A walk over segments that writes what is left of them. The counts are of everything so far."""

    __slots__ = (
        "_end_offset", "_files", "_last_records", "_map", "_marks", "_new_horizon_ms", "_now_ms", "_run", "_survey",
        "_transactions", "bytes_read", "messages_read", "messages_written",
    )  # fmt: skip

    is_done = False

    def __init__(
        self,
        offset_map: OffsetMap,
        marks: Marks,
        transactions: CleanedTransactions,
        last_records: ReadMapping[int, LastRecord],
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offset_map
        self._marks = marks
        self._survey = Survey(offset_map)
        self._transactions = transactions
        self._last_records = last_records
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms
        self._run = 0
        self.bytes_read = self.messages_read = self.messages_written = 0

    def begin(self, files: CleanedFiles) -> None:
        """What stays goes to ``files`` from now on. They are flushed by whoever made them."""
        self._files = files
        self._transactions.index = files.transaction_index

    @property
    def invalid_messages_read(self) -> int:
        return self._survey.invalid

    def take(self, data: bytes) -> int:
        """Filter all whole batches in ``data``; how many bytes those are.

        Raises:
            Malformed: a batch is not what it says.
            OSError
        """
        position = self._run = 0
        limit = len(data)
        while position + HEADER_BYTES <= limit:
            header = _unpack(data, position)
            following = position + header[1] + LENGTH_END
            if header[3] != MAGIC or following < position + HEADER_BYTES or following > limit:
                break
            if not self._take_batch(data, position, following, header):
                self._end_run(data, position)
                self._run = following
            position = following
        self._end_run(data, position)
        self.bytes_read += position
        return position

    def _end_run(self, data: bytes, position: int) -> None:
        if position > self._run:
            self._files.add(memoryview(data)[self._run : position])
        self._run = position

    def _take_batch(self, data: bytes, position: int, following: int, header: tuple[int, ...]) -> bool:
        """Whether the batch stays as it is."""
        attributes = header[5]
        if attributes & CONTROL_MASK:
            return self._take_control(data, position, following, header)
        base_offset = header[0]
        last_offset = base_offset + header[6]
        gone = attributes & TRANSACTIONAL_MASK != 0 and self._transactions.is_aborted(last_offset, header[9])
        survey = self._survey
        kept = 0
        count = header[12]
        section: Section | None = None
        horizon = header[7] if attributes & DELETE_HORIZON_MASK else None
        if not gone and count:
            self.messages_read += count
            known = last_offset <= self._map.latest_offset
            marks = self._marks.between(base_offset, last_offset + 1) if known else b""
            if marks.count(NEWEST_BYTE) == count:
                return self._keep(data, position, following, last_offset, header[8], count)
            keyless = marks.count(KEYLESS_BYTE)
            if keyless + marks.count(SUPERSEDED_BYTE) == count:
                survey.invalid += keyless
            else:
                section = Section(data, position, following, header)
                keep_tombstones = horizon is None or self._now_ms < horizon
                survey.look(section, count, base_offset, marks, keep_tombstones=keep_tombstones)
                kept = survey.kept
        if kept == 0:
            if self._stays_empty(last_offset, header):
                if gone:
                    self.messages_read += count
                check(data, position, following, header[4])
                self._put(data, position, emptied(header), b"", last_offset, header[8])
            return False
        if survey.has_tombstone and horizon is None:
            horizon = self._new_horizon_ms
        elif kept == count:
            return self._keep(data, position, following, last_offset, header[8], kept)
        assert section is not None
        self._thin(data, position, header, section, horizon)
        return False

    def _take_control(self, data: bytes, position: int, following: int, header: tuple[int, ...]) -> bool:
        last_offset = header[0] + header[6]
        kind = control_kind(data, position, following, header)
        obsolete = self._transactions.is_obsolete(last_offset, header[9], kind)
        horizon = header[7] if header[5] & DELETE_HORIZON_MASK else None
        count = header[12]
        gone = obsolete and horizon is not None and horizon <= self._now_ms
        if gone or not count:
            if self._stays_empty(last_offset, header):
                self.messages_read += count
                check(data, position, following, header[4])
                self._put(data, position, emptied(header), b"", last_offset, header[8])
            return False
        self.messages_read += count
        if not obsolete or horizon is not None:
            return self._keep(data, position, following, last_offset, header[8], count)
        section = Section(data, position, following, header)
        self._survey.keep_all(section, count)
        self._thin(data, position, header, section, self._new_horizon_ms)
        return False

    def _stays_empty(self, last_offset: int, header: tuple[int, ...]) -> bool:
        """Whether a batch is needed for its offsets and sequences alone."""
        if header[9] >= 0:
            last = self._last_records.get(header[9])
            if last is not None:
                if last.last_data_offset is not None:
                    if last.last_data_offset == last_offset:
                        return True
                elif header[5] & CONTROL_MASK and header[10] == last.producer_epoch:
                    return True
        return last_offset + 1 == self._end_offset

    def _keep(
        self, data: bytes, position: int, following: int, last_offset: int, max_timestamp: int, count: int
    ) -> bool:
        self.messages_written += count
        if not self._files.note(last_offset, max_timestamp, following - position):
            self._end_run(data, position)
            self._split(data, position)
            self._files.note(last_offset, max_timestamp, following - position)
        return True

    def _thin(self, data: bytes, position: int, header: tuple[int, ...], section: Section, horizon: int | None) -> None:
        survey = self._survey
        if header[5] & TIMESTAMP_TYPE_MASK:
            first = highest = header[8]
        else:
            first = as_int64(header[7] + survey.first_delta)
            highest = max(as_int64(header[7] + survey.highest_delta), -1)
        start, records = thinned(header, section.data, survey.stretches, survey.kept, first, highest, horizon)
        self.messages_written += survey.kept
        self._put(data, position, start, records, header[0] + header[6], highest)

    def _put(
        self, data: bytes, position: int, header: bytes, records: bytes, last_offset: int, max_timestamp: int
    ) -> None:
        """Write another batch for the one at ``position``."""
        self._end_run(data, position)
        size = len(header) + len(records)
        if not self._files.note(last_offset, max_timestamp, size):
            self._split(header, 0)
            self._files.note(last_offset, max_timestamp, size)
        self._files.add(header)
        self._files.add(records)

    def _split(self, data: bytes, position: int) -> None:
        """Go on in another segment, which begins with the batch at ``position``."""
        self._files.split(int.from_bytes(data[position : position + 8], "big"))
        self._transactions.index = self._files.transaction_index
