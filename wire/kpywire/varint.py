"""Variable-length integers of record format v2 and of flexible messages, as in Kafka's ``ByteUtils``.

Invariant: every decoder either returns a value of its declared width and the position after it, or raises
:class:`~kpywire.errors.Malformed`; it reads at most 5 (32 bits) or 10 (64 bits) bytes and drops bits beyond the width,
as Java does.
"""

from typing import Final

from kpywire.errors import Malformed

Buffer = bytes | bytearray | memoryview

_MAX_LENGTH_32: Final = 5
_MAX_LENGTH_64: Final = 10
_ONE_BYTE: Final = tuple([bytes((value,)) for value in range(0x80)])
"""The numbers that take one byte."""


def encode_unsigned_varint(value: int) -> bytes:
    """``value`` (0 <= value < 2**64) in groups of seven bits, least significant first."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_varint(value: int) -> bytes:
    """The zigzag form of a signed 32-bit integer: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return encode_unsigned_varint((value << 1 ^ value >> 31) & 0xFFFF_FFFF)


def encode_varlong(value: int) -> bytes:
    """The zigzag form of a signed 64-bit integer."""
    return encode_unsigned_varint((value << 1 ^ value >> 63) & 0xFFFF_FFFF_FFFF_FFFF)


def decode_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned 32-bit integer at ``position``, and the position after it."""
    value, position = _decode(buffer, position, _MAX_LENGTH_32)
    return value & 0xFFFF_FFFF, position


def decode_unsigned_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned 64-bit integer at ``position``, and the position after it."""
    value, position = _decode(buffer, position, _MAX_LENGTH_64)
    return value & 0xFFFF_FFFF_FFFF_FFFF, position


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A zigzag signed 32-bit integer at ``position``, and the position after it."""
    value, position = decode_unsigned_varint(buffer, position)
    return value >> 1 ^ -(value & 1), position


def decode_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """A zigzag signed 64-bit integer at ``position``, and the position after it."""
    value, position = decode_unsigned_varlong(buffer, position)
    return value >> 1 ^ -(value & 1), position


def as_int64(value: int) -> int:
    """``value`` cut to a signed 64-bit integer, as Java's arithmetic does."""
    return (value + 0x8000_0000_0000_0000 & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def _decode(buffer: Buffer, position: int, max_length: int) -> tuple[int, int]:
    value = 0
    try:
        for shift in range(0, 7 * max_length, 7):
            byte = buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
    except IndexError:
        raise Malformed("a variable-length integer is cut off") from None
    raise Malformed(f"a variable-length integer is longer than {max_length} bytes")
