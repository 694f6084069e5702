"""ASN.1 values in DER, read one after the other: as much of it as names, certificates and key stores need.

Invariant: no length is believed before it is compared with the bytes that are there. Malformed input raises
`MalformedDer`.
"""

from typing import Final, NamedTuple

INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31
_MOST_LENGTH_BYTES: Final = 4


class MalformedDer(ValueError):
    """The bytes are not DER, or do not have the expected structure."""


class Value(NamedTuple):
    """One value: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    encoded: bytes

    def values(self) -> list["Value"]:
        """The values that it consists of."""
        return read_all(self.content)


def read_value(data: bytes, position: int = 0) -> tuple[Value, int]:
    """The value at a position, and the position behind it."""
    end = len(data)
    if end - position < 2:
        raise MalformedDer("a value is cut off")
    tag, length = data[position], data[position + 1]
    if tag & 0x1F == 0x1F:
        raise MalformedDer("tags of several bytes are not expected")
    start = position + 2
    if length > 0x7F:
        size = length & 0x7F
        if not 0 < size <= _MOST_LENGTH_BYTES or end - start < size:
            raise MalformedDer("a length cannot be read")
        length = int.from_bytes(data[start : start + size], "big")
        start += size
    if length > end - start:
        raise MalformedDer("a value is cut off")
    stop = start + length
    return Value(tag, data[start:stop], data[position:stop]), stop


def read_all(data: bytes) -> list[Value]:
    """The values that follow one another in these bytes."""
    values = []
    position = 0
    while position < len(data):
        value, position = read_value(data, position)
        values.append(value)
    return values


def only(data: bytes, tag: int) -> Value:
    """The only value in these bytes, which has this tag."""
    value, end = read_value(data)
    if value.tag != tag or end != len(data):
        raise MalformedDer("another structure was expected")
    return value


def object_identifier(content: bytes) -> str:
    """An object identifier in its usual notation: numbers between dots."""
    if not content or content[-1] & 0x80:
        raise MalformedDer("an object identifier is cut off")
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
