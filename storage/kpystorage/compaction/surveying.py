"""Which records of a batch stay (the rules of Kafka's Cleaner.shouldRetainRecord), without taking them apart further.

A record stays if nothing is known of its offset yet, or if it has a key and no newer record has the same; a tombstone
among these only as long as the horizon of its batch allows. In a compacted log a record without a key goes.
"""

from kpystorage.compaction.offset_map import NOT_FOUND, OffsetMap
from kpywire.errors import Malformed
from kpywire.varint import decode_unsigned_varint, decode_unsigned_varlong


class Survey:
    """What was found in the record section that was looked at last."""

    __slots__ = ("_map", "first_delta", "has_tombstone", "highest_delta", "invalid", "kept", "stretches")

    def __init__(self, offset_map: OffsetMap) -> None:
        self._map = offset_map
        self.kept = 0
        """How many records stay."""
        self.stretches: list[int] = []
        """Where they begin and end in the section, in pairs; neighbours lie in one stretch."""
        self.first_delta = 0
        """The timestamp delta of the first of them."""
        self.highest_delta = 0
        self.has_tombstone = False
        self.invalid = 0
        """How many records had no key, of all sections so far."""

    def keep_all(self, section: bytes, count: int) -> None:
        """Let all ``count`` records stay, as those of a control batch do. Malformed."""
        latest = self._map.latest_offset
        self._map.latest_offset = NOT_FOUND
        self.look(section, count, 0, keep_tombstones=True)
        self._map.latest_offset = latest

    def look(self, section: bytes, count: int, base_offset: int, *, keep_tombstones: bool) -> None:
        """Go through ``count`` records. Malformed: there are none, or other bytes as well."""
        offset_map = self._map
        latest = offset_map.latest_offset - base_offset
        stretches: list[int] = []
        self.stretches = stretches
        self.has_tombstone = False
        kept = first = highest = 0
        position = begun = 0
        is_open = False
        try:
            for _ in range(count):
                start = position
                length = section[position]
                position += 1
                if length > 127:
                    length += (section[position] << 7) - 128
                    position += 1
                    if length > 16383:
                        length, position = decode_unsigned_varint(section, position - 2)
                following = position + (length >> 1)
                timestamp = section[position + 1]
                position += 2
                if timestamp > 127:
                    timestamp += (section[position] << 7) - 128
                    position += 1
                    if timestamp > 16383:
                        timestamp, position = decode_unsigned_varlong(section, position - 2)
                delta = section[position]
                position += 1
                if delta > 127:
                    delta += (section[position] << 7) - 128
                    position += 1
                    if delta > 16383:
                        delta, position = decode_unsigned_varint(section, position - 2)
                delta >>= 1
                key_bytes = section[position]
                position += 1
                if key_bytes > 127:
                    key_bytes, position = decode_unsigned_varint(section, position - 1)
                after_key = position
                if not key_bytes & 1:
                    after_key += key_bytes >> 1
                is_tombstone = section[after_key] & 1 == 1
                if delta > latest:
                    stays = True
                elif key_bytes & 1:
                    self.invalid += 1
                    stays = False
                elif is_tombstone and not keep_tombstones:
                    stays = False
                else:
                    stays = base_offset + delta >= offset_map.get(section[position:after_key])
                if stays:
                    timestamp = timestamp >> 1 ^ -(timestamp & 1)
                    if kept == 0:
                        first = highest = timestamp
                    elif timestamp > highest:
                        highest = timestamp
                    kept += 1
                    if is_tombstone:
                        self.has_tombstone = True
                    if not is_open:
                        begun = start
                        is_open = True
                elif is_open:
                    stretches.append(begun)
                    stretches.append(start)
                    is_open = False
                position = following
        except IndexError:
            raise Malformed("the records of a batch end before the last one") from None
        if position != len(section):
            raise Malformed(f"{len(section) - position} bytes follow the last of {count} records")
        if is_open:
            stretches.append(begun)
            stretches.append(position)
        self.kept, self.first_delta, self.highest_delta = kept, first, highest
