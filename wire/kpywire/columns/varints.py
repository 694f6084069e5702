"""Variable-length integers of many records at once: as `kpywire.varint`, for arrays of positions."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpywire.errors import Malformed

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]

_LONGEST_32: Final = 5
_LONGEST_64: Final = 10
_ONE: Final = np.uint64(1)


def varints(data: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """The zigzag signed 32-bit integers at ``positions``, and the positions after them.

    A position beyond ``data`` reads as its last byte: callers compare where a record ends. Raises Malformed.
    """
    return _integers(data, positions, _LONGEST_32, 0xFFFF_FFFF)


def varlongs(data: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """Like `varints`, with 64 bits."""
    return _integers(data, positions, _LONGEST_64, 0xFFFF_FFFF_FFFF_FFFF)


def _integers(data: Bytes, positions: Positions, longest: int, mask: int) -> tuple[Positions, Positions]:
    found = data.take(positions, mode="clip")
    values = _OF_ONE_BYTE.take(found)
    after = positions + 1
    going = np.flatnonzero(found > 0x7F)
    if going.size:
        longer, ends = _longer(data, found[going], after[going], longest)
        values[going] = signed(longer & np.uint64(mask))
        after[going] = ends
    return values, after


def _longer(data: Bytes, found: Bytes, after: Positions, longest: int) -> tuple[NDArray[np.uint64], Positions]:
    """The unsigned integers that begin with the bytes ``found`` and go on, and the positions after them."""
    values = (found & 0x7F).astype(np.uint64)
    found = data.take(after, mode="clip")
    values |= (found & 0x7F).astype(np.uint64) << np.uint64(7)
    after += 1
    going = np.flatnonzero(found > 0x7F)
    for length in range(2, longest):
        if not going.size:
            return values, after
        found = data.take(after[going], mode="clip")
        values[going] |= (found & 0x7F).astype(np.uint64) << np.uint64(7 * length)
        after[going] += 1
        going = going[found > 0x7F]
    if going.size:
        raise Malformed(f"a variable-length integer is longer than {longest} bytes")
    return values, after


def signed(values: NDArray[np.uint64]) -> Positions:
    """The integers that zigzag encodes so."""
    return (values >> _ONE).view(np.int64) ^ -(values & _ONE).view(np.int64)


_OF_ONE_BYTE: Final = signed(np.arange(256, dtype=np.uint64) & np.uint64(0x7F))
"""The signed integer of each byte that is one alone."""
