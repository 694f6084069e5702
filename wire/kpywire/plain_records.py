"""The records of a section that is not compressed, without an object for each: there may be a million of them."""

from collections.abc import Iterator

from kpywire.errors import Malformed
from kpywire.varint import decode_varint


def plain_records(section: bytes, count: int, base_offset: int) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield (offset, key, value) of the records of a section, without a call per field: there may be a million of them.

    Raises Malformed.
    """
    position = 0
    end = len(section)
    try:
        for _ in range(count):
            length, position = _length(section, position)
            following = position + length
            position += 1
            while section[position] > 127:
                position += 1
            position += 1
            delta, position = _length(section, position)
            key_bytes, position = _length(section, position)
            key_end = position + max(key_bytes, 0)
            value_bytes, value_start = _length(section, key_end)
            value_end = value_start + value_bytes
            if key_end > following or value_end >= following or following > end:
                raise Malformed("a record that is longer than it says")
            value = section[value_start:value_end] if value_bytes >= 0 else None
            yield base_offset + delta, section[position:key_end], value
            position = following
    except IndexError:
        raise Malformed("records that end before the last one") from None
    if position != end:
        raise Malformed(f"{end - position} bytes behind the last of {count} records")


def _length(section: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint, which mostly has one or two bytes."""
    low = section[position]
    if low > 127:
        high = section[position + 1]
        if high > 127:
            return decode_varint(section, position)
        low += (high << 7) - 128
        return low >> 1 ^ -(low & 1), position + 2
    return low >> 1 ^ -(low & 1), position + 1
