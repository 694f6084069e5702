"""Records one by one: only their lengths are read. Compiled, where the rest of `kpywire.columns` is not.

Invariant: positions ascend, and all lie in the section.
"""

from kpywire.errors import Malformed
from kpywire.varint import decode_varint


def walk(section: bytes, position: int, count: int) -> tuple[list[int], int]:
    """The positions of ``count`` records one by one, and the position after them."""
    found = []
    try:
        for _ in range(count):
            found.append(position)
            length = section[position]
            if length > 127:
                length += (section[position + 1] << 7) - 128
                position += 1
                if length > 16383:
                    signed, position = decode_varint(section, position - 1)
                    length = signed << 1
                    position -= 1
            if length & 1 or length < 0:
                raise Malformed("a record of a negative length")
            position += (length >> 1) + 1
    except IndexError:
        raise Malformed("the records end before the last one") from None
    return found, position
