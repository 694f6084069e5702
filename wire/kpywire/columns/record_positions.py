"""The positions of the records in a section: the only part of decoding that goes from one record to the next.

Records that are alike have one size, so that their positions can be compared with a stride at once. All others are
walked, which takes one step for each.

Invariant: positions come out only if the lengths of the records fill the section to its last byte.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpywire.columns.walking import walk
from kpywire.errors import Malformed
from kpywire.varint import decode_varint

SMALLEST_BYTES: Final = 7
"""A record has one byte for each of its fields at least: so the memory for positions is bounded by that of sections."""
SHORTEST_RUN: Final = 32
"""A run of records of one size is worth a comparison from this number on."""
WALKED_AT_ONCE: Final = 256
"""The records that are walked before a run is searched again."""


def record_positions(section: memoryview, count: int) -> list[NDArray[np.int64]]:
    """The positions of ``count`` records, each of which ends where the next begins, in pieces of any size.

    Raises:
        Malformed: a length is negative or cut off, or the records do not fill the section.
    """
    if count * SMALLEST_BYTES > len(section):
        raise Malformed(f"{len(section)} bytes are no {count} records")
    data = np.frombuffer(section, np.uint8)
    pieces, position, left, whole = [], 0, count, b""
    while left > 0:
        run, position = _run(data, section, position, left)
        if run is not None:
            pieces.append(run)
            left -= len(run)
            continue
        whole = whole or bytes(section)
        walked, position = walk(whole, position, min(left, WALKED_AT_ONCE))
        pieces.append(np.array(walked, np.int64))
        left -= len(walked)
    if position != len(section):
        raise Malformed(f"{len(section) - position} bytes follow the last of {count} records")
    return pieces


def _run(
    data: NDArray[np.uint8], section: memoryview, position: int, most: int
) -> tuple[NDArray[np.int64] | None, int]:
    """The positions of the records from ``position`` on that have the size of the first, if they are many."""
    length, start = decode_varint(section, position)
    size = start - position + length
    most = min(most, (len(section) - position) // size) if length > 0 else 0
    if most < SHORTEST_RUN:
        return None, position
    alike = most
    for place in range(position, start):
        same = data[place : place + size * alike : size][:alike] == section[place]
        alike = int(same.argmin()) or alike  # 0 where all are the same, since the first one is
    if alike < SHORTEST_RUN:
        return None, position
    end = position + size * alike
    return np.arange(position, end, size), end
