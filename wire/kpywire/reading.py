"""The rare parts of the flexible format (KIP-482), for headers and compiled decoders: long numbers, unknown tags.

Invariant: each call ends behind the position it was given, or raises Malformed, or IndexError beyond the buffer.
"""

from collections.abc import Generator
from typing import Final

from kpywire.errors import Malformed
from kpywire.varint import Buffer, decode_unsigned_varint

MAX_STRING_BYTES: Final = 0x7FFF
STEP_TAGS: Final = 64
"""The number of tagged fields that are skipped in one step."""


def long_number(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The value of an unsigned varint whose ``first`` byte is before ``position``, and the position after it.

    Malformed from 2**31 on: Kafka takes those for negative numbers.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0x7FFF_FFFF:
                break
            return value, position
    raise Malformed("a length or count beyond 2**31")


def long_string_length(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Like `long_number`, for a string's length plus one. Malformed beyond Kafka's limit."""
    length, position = long_number(buffer, position, first)
    if length > MAX_STRING_BYTES + 1:
        raise Malformed(f"a string of {length - 1} bytes")
    return length, position


def skip_tagged_fields(buffer: Buffer, position: int, count: int) -> int:
    """The position after ``count`` unknown tagged fields."""
    return _skip(buffer, position, count, -1)[0]


def skip_in_steps(buffer: Buffer, position: int, count: int) -> Generator[None, None, int]:
    """Like `skip_tagged_fields`, in steps."""
    last = -1
    while count > STEP_TAGS:
        position, last = _skip(buffer, position, STEP_TAGS, last)
        count -= STEP_TAGS
        yield
    return _skip(buffer, position, count, last)[0]


def _skip(buffer: Buffer, position: int, count: int, last: int) -> tuple[int, int]:
    """The position after ``count`` unknown tagged fields, and the last tag. ``last`` is the tag before them."""
    for _ in range(count):
        tag, position = decode_unsigned_varint(buffer, position)
        size, position = decode_unsigned_varint(buffer, position)
        if tag <= last:
            raise Malformed(f"tagged field {tag} after {last}")
        last = tag
        position += size
    return position, last
