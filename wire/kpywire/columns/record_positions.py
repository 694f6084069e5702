"""The positions of the records in a section: the only part of decoding that goes from one record to the next.

Records that are alike have one size, so that their positions can be compared with a stride at once. All others are
walked, which takes one step for each.

Invariant: positions come out only if the lengths of the records fill the section to its last byte.
"""

from types import FunctionType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpywire.columns.walking import walk
from kpywire.errors import Malformed
from kpywire.varint import Buffer, decode_varint

SMALLEST_BYTES: Final = 7
"""A record has one byte for each of its fields at least: so the memory for positions is bounded by that of sections."""
SHORTEST_RUN: Final = 32
"""A run of records of one size is worth a comparison from this number on."""
WALKED_AT_ONCE: Final = 256 if isinstance(walk, FunctionType) else 2048
MOST_AT_ONCE: Final = 4096
"""The records that are walked before a run is searched again: twice as many each time that there is none. Where walking
is compiled, a stretch of 256 costs less than what is done once for each stretch."""


def record_positions(buffer: Buffer, start: int, end: int, count: int) -> list[NDArray[np.int64]]:
    """The positions of ``count`` records in the section from ``start`` to ``end``, where it begins is 0; in pieces of
    any size. Each record ends where the next begins.

    Raises:
        Malformed: a length is negative or cut off, or the records do not fill the section.
    """
    section = memoryview(buffer)[start:end]
    if count * SMALLEST_BYTES > len(section):
        raise Malformed(f"{len(section)} bytes are no {count} records")
    data = np.frombuffer(section, np.uint8)
    pieces, position, left, whole = [], 0, count, b""
    at_once = WALKED_AT_ONCE
    while left > 0:
        run, position = _run(data, section, position, left)
        if run is not None:
            pieces.append(run)
            left -= len(run)
            at_once = WALKED_AT_ONCE
            continue
        if not whole:
            whole, base = (buffer, start) if isinstance(buffer, bytes) else (bytes(section), 0)
        sizes, after = walk(whole, base + position, min(left, at_once))
        pieces.append(_of_sizes(position, sizes))
        position, left = after - base, left - len(sizes)
        at_once = min(2 * at_once, MOST_AT_ONCE)
    if position != len(section):
        raise Malformed(f"{len(section)} bytes are not filled by {count} records")
    return pieces


def _of_sizes(position: int, sizes: list[int]) -> NDArray[np.int64]:
    """The positions of records that have these sizes and begin at ``position``."""
    try:
        found: NDArray[Any] = np.frombuffer(bytes(sizes), np.uint8)
    except ValueError:  # one is above 255
        found = np.fromiter(sizes, np.int64, len(sizes))
    steps = np.empty(len(sizes), np.int64)
    steps[0] = position
    steps[1:] = found[:-1]
    return steps.cumsum(out=steps)


def _run(
    data: NDArray[np.uint8], section: memoryview, position: int, most: int
) -> tuple[NDArray[np.int64] | None, int]:
    """The positions of the records from ``position`` on that have the size of the first, if they are many."""
    length, start = decode_varint(section, position)
    size = start - position + length
    most = min(most, (len(section) - position) // size) if length > 0 else 0
    if most < SHORTEST_RUN:
        return None, position
    for place in range(position, start):
        first_ones = section[place : place + size * SHORTEST_RUN : size].tobytes()
        if first_ones.count(section[place]) < SHORTEST_RUN:
            return None, position
    alike = most
    for place in range(position, start):
        same = data[place : place + size * alike : size][:alike] == section[place]
        alike = int(same.argmin()) or alike  # 0 where all are the same, since the first one is
    end = position + size * alike
    return np.arange(position, end, size), end
