"""Records one by one: only their lengths are read. Compiled, where the rest of `kpywire.columns` is not.

Invariant: sizes are positive. They are not compared with the end of the section, but with that of the buffer.
"""

from typing import TYPE_CHECKING

from kpywire.errors import Malformed
from kpywire.varint import decode_varint

if TYPE_CHECKING:
    from mypy_extensions import i64


def walk(buffer: bytes, position: "i64", count: "i64") -> "tuple[list[int], i64]":
    """The sizes of ``count`` records one by one from ``position`` on, and the position after them.

    They are sizes and not positions, since Python makes no new objects for small numbers.
    """
    found: list[int] = []
    try:
        for _record in range(count):  # mypyc makes an object of each number if its name is only "_"
            start: i64 = position
            length: i64 = buffer[position]
            if length > 127:
                position += 1
                length += (buffer[position] << 7) - 128
                if length > 16383:
                    length, position = decode_varint(buffer, position - 1)
                    length <<= 1
                    position -= 1
            if length & 1 or length < 0:
                raise Malformed("a record of a negative length")
            position += (length >> 1) + 1
            found.append(position - start)
    except IndexError:
        raise Malformed("the records end before the last one") from None
    return found, position
