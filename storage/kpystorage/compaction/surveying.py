"""The records of a batch that stay, found without full decoding (the rules of Kafka's Cleaner.shouldRetainRecord).

A record stays if its offset is not mapped yet, or if it has a key and no newer record has the same key. A tombstone
among these stays only as long as the horizon of its batch allows. In a compacted log a record without a key is removed.
"""

from typing import TYPE_CHECKING, Final

from kpystorage.compaction.marks import KEYLESS, NEWEST, SUPERSEDED, TOMBSTONE
from kpystorage.compaction.offset_map import NOT_FOUND, OffsetMap
from kpywire.errors import Malformed
from kpywire.varint import decode_unsigned_varint, decode_unsigned_varlong

if TYPE_CHECKING:
    from mypy_extensions import i64

LATER_TOMBSTONE: Final = 5
"""A mark for a tombstone that lies behind all mapped offsets: it stays, whatever the horizon."""


class Survey:
    """The findings in the record section that was examined last."""

    __slots__ = ("_map", "first_delta", "has_tombstone", "highest_delta", "invalid", "kept", "stretches")

    def __init__(self, offset_map: OffsetMap) -> None:
        self._map = offset_map
        self.kept = 0
        """The number of records that stay."""
        self.stretches: list[int] = []
        """The bounds of the kept records in the section, in pairs of begin and end. Neighbours lie in one stretch."""
        self.first_delta = 0
        """The timestamp delta of the first kept record."""
        self.highest_delta = 0
        self.has_tombstone = False
        self.invalid = 0
        """The number of records without a key, in all sections so far."""

    def keep_all(self, section: bytes, count: int) -> None:
        """Let all ``count`` records stay, as those of a control batch do. Malformed."""
        latest = self._map.latest_offset
        self._map.latest_offset = NOT_FOUND
        self.look(section, 0, len(section), count, 0, b"", -1, keep_tombstones=True)
        self._map.latest_offset = latest

    def look(  # noqa: PLR0913
        self, section: bytes, position: "i64", end: "i64", count: "i64", base_offset: "i64", marks: bytes,
        marked: "i64", *, keep_tombstones: bool,
    ) -> None:  # fmt: skip
        """Examine the ``count`` records that fill the section from ``position`` to ``end``.

        ``marked`` is the place of the base offset in ``marks``, -1 if that is not known. Malformed: they do not fill
        it.
        """
        latest: i64 = self._map.latest_offset - base_offset
        stretches: list[int] = []
        self.stretches = stretches
        self.has_tombstone = False
        kept: i64 = 0
        first: i64 = 0
        highest: i64 = 0
        begun: i64 = -1
        try:
            for _nth in range(count):
                start: i64 = position
                length: i64 = section[position]
                position += 1
                if length > 127:
                    length += (section[position] << 7) - 128
                    position += 1
                    if length > 16383:
                        length, position = decode_unsigned_varint(section, position - 2)
                following: i64 = position + (length >> 1)
                timestamp = section[position + 1]
                position += 2
                if timestamp > 127:
                    timestamp += (section[position] << 7) - 128
                    position += 1
                    if timestamp > 16383:
                        timestamp, position = decode_unsigned_varlong(section, position - 2)
                delta: i64 = section[position]
                position += 1
                if delta > 127:
                    delta += (section[position] << 7) - 128
                    position += 1
                    if delta > 16383:
                        delta, position = decode_unsigned_varint(section, position - 2)
                delta >>= 1
                if marked >= 0:
                    mark = marks[marked + delta]
                else:
                    mark = self._mark(section, position, base_offset + delta, is_later=delta > latest)
                if mark == NEWEST or mark == LATER_TOMBSTONE or (mark == TOMBSTONE and keep_tombstones):  # noqa: SIM109
                    shift: i64 = timestamp >> 1 ^ -(timestamp & 1)
                    if kept == 0:
                        first = highest = shift
                    elif shift > highest:
                        highest = shift
                    kept += 1
                    if mark != NEWEST:
                        self.has_tombstone = True
                    if begun < 0:
                        begun = start
                else:
                    if mark == KEYLESS:
                        self.invalid += 1
                    if begun >= 0:
                        stretches.append(begun)
                        stretches.append(start)
                        begun = -1
                position = following
        except IndexError:
            raise Malformed("the records of a batch end before the last one") from None
        if position != end:
            raise Malformed(f"the records of a batch are not the {count} that it says")
        if begun >= 0:
            stretches.append(begun)
            stretches.append(position)
        self.kept, self.first_delta, self.highest_delta = kept, first, highest

    def _mark(self, section: bytes, position: "i64", offset: "i64", *, is_later: bool) -> int:
        """The mark of a record whose key begins, with its length, at ``position``."""
        key_bytes: i64 = section[position]
        position += 1
        if key_bytes > 127:
            key_bytes, position = decode_unsigned_varint(section, position - 1)
        after_key: i64 = position
        if not key_bytes & 1:
            after_key += key_bytes >> 1
        is_tombstone = section[after_key] & 1 == 1
        if is_later:
            return LATER_TOMBSTONE if is_tombstone else NEWEST
        if key_bytes & 1:
            return KEYLESS
        if offset < self._map.get(section[position:after_key]):
            return SUPERSEDED
        return TOMBSTONE if is_tombstone else NEWEST
