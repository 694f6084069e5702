"""Records one by one: only their lengths are read. Compiled, where the rest of `kpywire.columns` is not.

Invariant: sizes are positive. They are not compared with the end of the section, but with that of the buffer.
"""

from kpywire.errors import Malformed
from kpywire.varint import decode_varint


def walk(buffer: bytes, position: int, count: int) -> tuple[list[int], int]:
    """The sizes of ``count`` records one by one from ``position`` on, and the position after them.

    They are sizes and not positions, since Python makes no new objects for small numbers.
    """
    found = []
    try:
        for _ in range(count):
            start = position
            length = buffer[position]
            if length > 127:
                length += (buffer[position + 1] << 7) - 128
                position += 1
                if length > 16383:
                    signed, position = decode_varint(buffer, position - 1)
                    length = signed << 1
                    position -= 1
            if length & 1 or length < 0:
                raise Malformed("a record of a negative length")
            position += (length >> 1) + 1
            found.append(position - start)
    except IndexError:
        raise Malformed("the records end before the last one") from None
    return found, position
