"""The second half of a pass: which batches stay, whole or with fewer records (MemoryRecords.filterTo and the filter of
Kafka's Cleaner).

Invariant: offsets never change; a batch whose records all stay keeps its bytes.
"""

from typing import TYPE_CHECKING

from kpystorage.compaction.batches import (
    BASE_TIMESTAMP_POSITION,
    LAST_OFFSET_DELTA_POSITION,
    MAX_TIMESTAMP_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
    check,
    control_kind,
    end_of,
    header_of,
    inflated,
    int32,
    int64,
)
from kpystorage.compaction.marks import KEYLESS_BYTE, NEWEST, NEWEST_BYTE, SUPERSEDED, SUPERSEDED_BYTE, Marks
from kpystorage.compaction.offset_map import OffsetMap
from kpystorage.compaction.rewriting import emptied, thinned
from kpystorage.compaction.surveying import Survey
from kpystorage.compaction.task import LogToClean
from kpystorage.compaction.transactions import CleanedTransactions
from kpystorage.compaction.writing import CleanedFiles
from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kpywire.varint import as_int64

if TYPE_CHECKING:
    from mypy_extensions import i64


class CompactionFilter:
    """A walk over segments that writes the records that stay. The counts are of everything so far."""

    __slots__ = (
        "_droppable_until", "_files", "_high_watermark", "_last_records", "_map", "_marks", "_most_record_bytes",
        "_new_horizon_ms", "_now_ms", "_run", "_survey", "_transactions", "bytes_read", "messages_read",
        "messages_written",
    )  # fmt: skip

    is_done = False

    def __init__(
        self,
        offset_map: OffsetMap,
        marks: Marks,
        transactions: CleanedTransactions,
        log: LogToClean,
        now_ms: int,
    ) -> None:
        self._map = offset_map
        self._marks = marks
        self._survey = Survey(offset_map)
        self._transactions = transactions
        self._last_records = log.last_records
        self._high_watermark = log.high_watermark
        self._now_ms = now_ms
        self._droppable_until = log.droppable_until
        self._most_record_bytes = log.config.max_decompressed_message_bytes
        self._new_horizon_ms = now_ms + log.config.delete_retention_ms
        self._run = 0
        self.bytes_read = self.messages_read = self.messages_written = 0

    def begin(self, files: CleanedFiles) -> None:
        """Write to ``files`` from now on. The caller who made them flushes them."""
        self._files = files
        self._transactions.index = files.transaction_index

    @property
    def invalid_messages_read(self) -> int:
        return self._survey.invalid

    def take(self, data: bytes) -> int:
        """Filter all whole batches in ``data``. Return how many bytes those are.

        Raises:
            Malformed: a batch is not what it claims to be.
            OSError
        """
        position: i64 = 0
        limit: i64 = len(data)
        self._run = 0
        while True:
            following = end_of(data, position, limit)
            if following < 0:
                break
            if not self._take_batch(data, position, following):
                self._end_run(data, position)
                self._run = following
            position = following
        self._end_run(data, position)
        self.bytes_read += position
        return position

    def _end_run(self, data: bytes, position: "i64") -> None:
        if position > self._run:
            self._files.add(memoryview(data)[self._run : position])
        self._run = position

    def _take_batch(self, data: bytes, position: "i64", following: "i64") -> bool:
        """Whether the batch stays as it is."""
        attributes = data[position + ATTRIBUTES_POSITION + 1]
        if attributes & CONTROL_MASK:
            return self._take_control(data, position, following)
        base_offset = int64(data, position)
        last_offset = base_offset + int32(data, position + LAST_OFFSET_DELTA_POSITION)
        count = int32(data, position + RECORD_COUNT_POSITION)
        if attributes & TRANSACTIONAL_MASK and self._transactions.is_aborted(
            last_offset, int64(data, position + PRODUCER_ID_POSITION)
        ):
            return self._put_empty(data, position, following, last_offset, count)
        self.messages_read += count
        marks = self._marks
        marked: i64 = base_offset - marks.first_offset
        marked_end: i64 = marked + (last_offset - base_offset) + 1
        if marked < 0 or marked_end > len(marks.known) or last_offset > self._map.latest_offset:
            marked = -1
        else:
            known = marks.known
            newest: i64
            if marked_end - marked == 1:
                newest = 1 if known[marked] == NEWEST else 0
            else:
                newest = known.count(NEWEST_BYTE, marked, marked_end)
            if newest == count and count > 0:
                return self._keep(data, position, following, last_offset, count)
            if newest == 0 and self._is_lost(known, marked, marked_end, count):
                return self._put_empty(data, position, following, last_offset, 0)
        return self._take_some(data, position, following, last_offset, count, marked)

    def _is_lost(self, known: bytes, marked: "i64", marked_end: "i64", count: "i64") -> bool:
        """Whether none of ``count`` records stays. Their marks are those in ``known`` between these places."""
        if marked_end - marked == 1 and count == 1 and known[marked] == SUPERSEDED:
            return True
        keyless: i64 = known.count(KEYLESS_BYTE, marked, marked_end)
        if keyless + known.count(SUPERSEDED_BYTE, marked, marked_end) != count:
            return False
        self._survey.invalid += keyless
        return True

    def _take_some(
        self, data: bytes, position: "i64", following: "i64", last_offset: "i64", count: "i64", marked: "i64"
    ) -> bool:
        """Do the same as `_take_batch` for a batch whose records have to be examined one by one."""
        survey, known = self._survey, self._marks.known
        base_offset = int64(data, position)
        horizon = self._horizon(data, position, last_offset)
        keep_tombstones = horizon is None or self._now_ms < horizon
        section = inflated(data, position, following, self._most_record_bytes)
        if section is None:
            section = data
            survey.look(
                data, position + HEADER_BYTES, following, count, base_offset, known, marked,
                keep_tombstones=keep_tombstones,
            )  # fmt: skip
        else:
            survey.look(section, 0, len(section), count, base_offset, known, marked, keep_tombstones=keep_tombstones)
        if survey.kept == 0:
            return self._put_empty(data, position, following, last_offset, 0)
        if survey.has_tombstone and horizon is None:
            horizon = self._new_horizon_ms
        elif survey.kept == count:
            return self._keep(data, position, following, last_offset, count)
        self._thin(data, position, section, horizon)
        return False

    def _horizon(self, data: bytes, position: "i64", last_offset: "i64") -> int | None:
        """The delete horizon of a batch; None if it has none, or one that does not count."""
        if last_offset < self._droppable_until and data[position + ATTRIBUTES_POSITION + 1] & DELETE_HORIZON_MASK:
            return int64(data, position + BASE_TIMESTAMP_POSITION)
        return None

    def _take_control(self, data: bytes, position: "i64", following: "i64") -> bool:
        last_offset = int64(data, position) + int32(data, position + LAST_OFFSET_DELTA_POSITION)
        count = int32(data, position + RECORD_COUNT_POSITION)
        kind = control_kind(data, position, following)
        obsolete = self._transactions.is_obsolete(last_offset, int64(data, position + PRODUCER_ID_POSITION), kind)
        horizon = self._horizon(data, position, last_offset)
        if count == 0 or (obsolete and horizon is not None and horizon <= self._now_ms):
            return self._put_empty(data, position, following, last_offset, count)
        self.messages_read += count
        if not obsolete or horizon is not None:
            return self._keep(data, position, following, last_offset, count)
        section = inflated(data, position, following)
        if section is None:
            section = data[position + HEADER_BYTES : following]
        self._survey.keep_all(section, count)
        self._thin(data, position, section, self._new_horizon_ms)
        return False

    def _put_empty(self, data: bytes, position: "i64", following: "i64", last_offset: "i64", unread: "i64") -> bool:
        """Write only the header of a batch, if even that is needed. It has ``unread`` records."""
        if last_offset + 1 == self._high_watermark or self._last_records:
            header = header_of(data, position)
            if self._stays_empty(last_offset, header):
                self.messages_read += unread
                check(data, position, following)
                self._put(data, position, emptied(header), b"", last_offset, header[8])
        return False

    def _stays_empty(self, last_offset: "i64", header: tuple[int, ...]) -> bool:
        """Whether a batch is needed for its offsets and sequences alone."""
        if header[9] >= 0:
            last = self._last_records.get(header[9])
            if last is not None:
                if last.last_data_offset is not None:
                    if last.last_data_offset == last_offset:
                        return True
                elif header[5] & CONTROL_MASK and header[10] == last.producer_epoch:
                    return True
        return last_offset + 1 == self._high_watermark

    def _keep(self, data: bytes, position: "i64", following: "i64", last_offset: "i64", count: "i64") -> bool:
        self.messages_written += count
        max_timestamp = int64(data, position + MAX_TIMESTAMP_POSITION)
        if not self._files.note(last_offset, max_timestamp, following - position):
            self._end_run(data, position)
            self._split(data, position)
            self._files.note(last_offset, max_timestamp, following - position)
        return True

    def _thin(self, data: bytes, position: "i64", section: bytes, horizon: int | None) -> None:
        survey = self._survey
        header = header_of(data, position)
        if header[5] & TIMESTAMP_TYPE_MASK:
            first = highest = header[8]
        else:
            first = as_int64(header[7] + survey.first_delta)
            highest = max(as_int64(header[7] + survey.highest_delta), NO_TIMESTAMP)
        start, records = thinned(header, section, survey.stretches, survey.kept, first, highest, horizon)
        self.messages_written += survey.kept
        self._put(data, position, start, records, header[0] + header[6], highest)

    def _put(
        self, data: bytes, position: "i64", header: bytes, records: bytes, last_offset: int, max_timestamp: int
    ) -> None:
        """Write a new batch in place of the one at ``position``."""
        self._end_run(data, position)
        size = len(header) + len(records)
        if not self._files.note(last_offset, max_timestamp, size):
            self._split(header, 0)
            self._files.note(last_offset, max_timestamp, size)
        self._files.add(header)
        self._files.add(records)

    def _split(self, data: bytes, position: "i64") -> None:
        """Continue in a new segment, which begins with the batch at ``position``."""
        self._files.split(int64(data, position))
        self._transactions.index = self._files.transaction_index
