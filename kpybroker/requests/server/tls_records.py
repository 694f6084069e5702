"""The records of TLS in a buffer. Pure.

OpenSSL raises an exception for each call that finds only the beginning of a record. So it gets whole ones.
"""

from struct import Struct
from typing import Final

MOST_RECORD_BYTES: Final = 5 + 16384 + 2048
"""The largest record that TLS 1.2 allows, with its header; those of TLS 1.3 are smaller."""
_HEADER: Final = Struct(">xBxH")
"""The first part of the version, and the length of the rest. The type and the version's second part do not matter."""
_VERSION: Final = 3
_HEADER_BYTES: Final = 5


def whole_records(buffer: memoryview, end: int) -> tuple[int, int]:
    """The end of the whole records with which a buffer begins, and their number.

    Where no record can begin, the rest up to ``end`` is one: OpenSSL finds the damage.
    """
    position = count = 0
    while end - position >= _HEADER_BYTES:
        version, length = _HEADER.unpack_from(buffer, position)
        stop: int = position + _HEADER_BYTES + length
        if version != _VERSION or stop - position > MOST_RECORD_BYTES:
            return end, count + 1
        if stop > end:
            break
        position = stop
        count += 1
    return position, count
