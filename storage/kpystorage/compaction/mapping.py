"""The first half of a pass: the newest offset of each key (Kafka's Cleaner.buildOffsetMap).

Records of aborted transactions do not count. Neither do records at or behind the first offset that may not be
compacted, even where their segment begins before it: a transaction that is open there may still be aborted. (Kafka maps
them. If it is aborted, the older records of the same keys are lost with it.)

Invariant: for every key the map holds its largest offset between the first dirty one and ``latest_offset``.
"""

from typing import TYPE_CHECKING

from kpystorage.compaction.batches import (
    LAST_OFFSET_DELTA_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
    control_kind,
    end_of,
    inflated,
    int32,
    int64,
)
from kpystorage.compaction.marks import KEYLESS, NEWEST, SUPERSEDED, TOMBSTONE, Marks
from kpystorage.compaction.offset_map import NOT_FOUND, OffsetMap
from kpystorage.compaction.transactions import CleanedTransactions
from kpywire.batch import ATTRIBUTES_POSITION, CONTROL_MASK, HEADER_BYTES, TRANSACTIONAL_MASK
from kpywire.errors import Malformed
from kpywire.varint import decode_unsigned_varint

if TYPE_CHECKING:
    from mypy_extensions import i64


class Mapping:
    """A walk over dirty segments that fills a map."""

    __slots__ = (
        "_end_offset", "_first_offset", "_map", "_marks", "_most_keys", "_most_record_bytes", "_transactions",
        "is_done", "messages_read",
    )  # fmt: skip

    def __init__(
        self,
        offset_map: OffsetMap,
        marks: Marks,
        most_keys: int,
        transactions: CleanedTransactions,
        end_offset: int,
        most_record_bytes: int,
    ) -> None:
        """Map the offsets from the first that is marked up to ``end_offset``."""
        self._map = offset_map
        self._marks = marks
        self._most_keys = most_keys
        self._transactions = transactions
        self._first_offset = marks.first_offset
        self._end_offset = end_offset
        self._most_record_bytes = most_record_bytes
        self.is_done = False
        """Whether a key was found that the map had no room for."""
        self.messages_read = 0

    def take(self, data: bytes) -> int:
        """Map the keys of all whole batches in ``data``. Return how many bytes those are.

        Raises:
            Malformed: the records of a batch cannot be read.
        """
        position: i64 = 0
        limit: i64 = len(data)
        while not self.is_done:
            following = end_of(data, position, limit)
            if following < 0:
                break
            self._take_batch(data, position, following)
            position = following
        return position

    def _take_batch(self, data: bytes, position: "i64", following: "i64") -> None:
        base_offset = int64(data, position)
        last_offset = base_offset + int32(data, position + LAST_OFFSET_DELTA_POSITION)
        attributes = data[position + ATTRIBUTES_POSITION + 1]
        count = int32(data, position + RECORD_COUNT_POSITION)
        if attributes & CONTROL_MASK:
            kind = control_kind(data, position, following)
            self._transactions.is_obsolete(last_offset, int64(data, position + PRODUCER_ID_POSITION), kind)
            self.messages_read += 1
        elif attributes & TRANSACTIONAL_MASK and self._transactions.is_aborted(
            last_offset, int64(data, position + PRODUCER_ID_POSITION)
        ):
            self.messages_read += count
        elif last_offset >= self._first_offset and base_offset < self._end_offset and count > 0:
            records = inflated(data, position, following, self._most_record_bytes)
            if records is None:
                self._put_keys(data, position + HEADER_BYTES, following, count, base_offset)
            else:
                self._put_keys(records, 0, len(records), count, base_offset)
        else:
            self.messages_read += count
        if last_offset >= self._first_offset and not self.is_done:
            self._map.latest_offset = last_offset

    def _put_keys(self, section: bytes, position: "i64", end: "i64", count: "i64", base_offset: "i64") -> None:
        """Map the keys of a record section, as far as they fit, and mark its records."""
        offset_map, most_keys = self._map, self._most_keys
        first_offset: i64 = self._first_offset
        end_offset: i64 = self._end_offset
        marks = self._marks.marks
        marks_end: i64 = first_offset + self._marks.count
        done: i64 = 0
        try:
            while done < count:
                length: i64 = section[position]
                position += 1
                if length > 127:
                    length += (section[position] << 7) - 128
                    position += 1
                    if length > 16383:
                        length, position = decode_unsigned_varint(section, position - 2)
                following: i64 = position + (length >> 1)
                position += 1
                while section[position] > 127:
                    position += 1
                position += 1
                delta: i64 = section[position]
                position += 1
                if delta > 127:
                    delta += (section[position] << 7) - 128
                    position += 1
                    if delta > 16383:
                        delta, position = decode_unsigned_varint(section, position - 2)
                key_bytes: i64 = section[position]
                position += 1
                if key_bytes > 127:
                    key_bytes, position = decode_unsigned_varint(section, position - 1)
                offset: i64 = base_offset + (delta >> 1)
                if first_offset <= offset < end_offset:
                    mark = KEYLESS
                    if not key_bytes & 1:
                        if offset_map.count >= most_keys:
                            self.is_done = True
                            break
                        after_key: i64 = position + (key_bytes >> 1)
                        before: i64 = offset_map.put(section[position:after_key], offset)
                        offset_map.latest_offset = offset
                        if NOT_FOUND < before < marks_end:
                            marks[before - first_offset] = SUPERSEDED
                        mark = TOMBSTONE if section[after_key] & 1 else NEWEST
                    if offset < marks_end:
                        marks[offset - first_offset] = mark
                done += 1
                position = following
        except IndexError:
            raise Malformed("the records of a batch end before the last one") from None
        finally:
            self.messages_read += done
        if not self.is_done and position != end:
            raise Malformed(f"the records of a batch are not the {count} that it says")
