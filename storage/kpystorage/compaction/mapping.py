"""The first half of a pass: which offset is the newest of each key (Kafka's Cleaner.buildOffsetMap).

Records of aborted transactions do not count. Nor do those at and behind the first offset that may not be compacted,
even where their segment begins before it: a transaction that is open there may be aborted yet. (Kafka maps them; what
they repeat is lost with it then.)

Invariant: of every key the map holds the largest offset below ``latest_offset`` and from the first dirty one on.
"""

from typing import TYPE_CHECKING, Final

from kpystorage.compaction.batches import Section, control_kind
from kpystorage.compaction.marks import KEYLESS, NEWEST, SUPERSEDED, TOMBSTONE, Marks
from kpystorage.compaction.offset_map import NOT_FOUND, OffsetMap
from kpystorage.compaction.transactions import CleanedTransactions
from kpywire.batch import (
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_MASK,
)
from kpywire.errors import Malformed
from kpywire.varint import decode_unsigned_varint

if TYPE_CHECKING:
    from mypy_extensions import i64

_unpack: Final = HEADER.unpack_from


class Mapping:
    """A walk over dirty segments that fills a map."""

    __slots__ = (
        "_end_offset", "_first_offset", "_map", "_marks", "_most_keys", "_transactions", "is_done", "messages_read",
    )  # fmt: skip

    def __init__(
        self,
        offset_map: OffsetMap,
        marks: Marks,
        most_keys: int,
        transactions: CleanedTransactions,
        end_offset: int,
    ) -> None:
        """From the first offset that is marked up to ``end_offset``."""
        self._map = offset_map
        self._marks = marks
        self._most_keys = most_keys
        self._transactions = transactions
        self._first_offset = marks.first_offset
        self._end_offset = end_offset
        self.is_done = False
        """Whether a key was found that the map has no room for."""
        self.messages_read = 0

    def take(self, data: bytes) -> int:
        """Map the keys of all whole batches in ``data``; how many bytes those are.

        Raises:
            Malformed: the records of a batch cannot be read.
        """
        position = 0
        limit = len(data)
        while position + HEADER_BYTES <= limit and not self.is_done:
            header = _unpack(data, position)
            following = position + header[1] + LENGTH_END
            if header[3] != MAGIC or following < position + HEADER_BYTES or following > limit:
                break
            self._take_batch(data, position, following, header)
            position = following
        return position

    def _take_batch(self, data: bytes, position: int, following: int, header: tuple[int, ...]) -> None:
        base_offset, attributes = header[0], header[5]
        last_offset = base_offset + header[6]
        if attributes & CONTROL_MASK:
            kind = control_kind(data, position, following, header)
            self._transactions.is_obsolete(last_offset, header[9], kind)
            self.messages_read += 1
        elif attributes & TRANSACTIONAL_MASK and self._transactions.is_aborted(last_offset, header[9]):
            self.messages_read += header[12]
        elif last_offset >= self._first_offset and base_offset < self._end_offset and header[12]:
            self._put_keys(Section(data, position, following, header), header[12], base_offset, self._end_offset)
        else:
            self.messages_read += header[12]
        if last_offset >= self._first_offset and not self.is_done:
            self._map.latest_offset = last_offset

    def _put_keys(self, records: Section, count: int, base_offset: int, end_offset: int) -> None:
        """Map the keys of a record section, as far as they fit, and mark its records."""
        offset_map, most_keys, first_offset = self._map, self._most_keys, self._first_offset
        put = offset_map.put
        marks = self._marks.marks
        marks_end = first_offset + self._marks.count
        section = records.data
        position: i64 = records.begin
        done = 0
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
                offset = base_offset + (delta >> 1)
                if first_offset <= offset < end_offset:
                    mark = KEYLESS
                    if not key_bytes & 1:
                        if offset_map.count >= most_keys:
                            self.is_done = True
                            break
                        after_key: i64 = position + (key_bytes >> 1)
                        before = put(section[position:after_key], offset)
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
        if not self.is_done and position != records.end:
            raise Malformed(f"the records of a batch are not the {count} that it says")
