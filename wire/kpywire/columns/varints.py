"""Variable-length integers of many records at once: as `kpywire.varint`, for arrays of positions."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpywire.errors import Malformed

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
Pairs = NDArray[np.uint16]
"""Two bytes each, the first one in the lower half."""

_LONGEST_32: Final = 5
_LONGEST_64: Final = 10
_ONE: Final = np.uint64(1)
_BYTE: Final = np.uint16(8)


def varints(data: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """The zigzag signed 32-bit integers at ``positions``, and the positions after them.

    A position beyond ``data`` reads as its last byte: callers compare where a record ends. Raises Malformed.
    """
    return _integers(data, positions, _LONGEST_32, 0xFFFF_FFFF)


def varlongs(data: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """Like `varints`, with 64 bits."""
    return _integers(data, positions, _LONGEST_64, 0xFFFF_FFFF_FFFF_FFFF)


def after_varints(data: Bytes, positions: Positions) -> Positions:
    """The positions after the 32-bit integers at ``positions``. Raises Malformed."""
    first = data.take(positions, mode="clip")
    after = positions + 1
    is_long = first > 0x7F
    after += is_long
    if is_long.any() and (is_long & (data.take(positions + 1, mode="clip") > 0x7F)).any():
        return varints(data, positions)[1]
    return after


def _integers(data: Bytes, positions: Positions, longest: int, mask: int) -> tuple[Positions, Positions]:
    first = data.take(positions, mode="clip")
    after = positions + 1
    is_long = first > 0x7F
    if not is_long.any():
        return _OF_ONE_BYTE.take(first), after
    second = data.take(after, mode="clip")
    pairs = second.astype(np.uint16)
    pairs <<= _BYTE
    pairs |= first
    values = _OF_TWO_BYTES.take(pairs)
    after += is_long
    going = np.flatnonzero(is_long & (second > 0x7F))
    if going.size:
        longer, ends = _longer(data, pairs[going], after[going], longest)
        values[going] = signed(longer & np.uint64(mask))
        after[going] = ends
    return values, after


def _longer(data: Bytes, pairs: Pairs, after: Positions, longest: int) -> tuple[NDArray[np.uint64], Positions]:
    """The unsigned integers that begin with two bytes and go on, and the positions after them."""
    values = _joined(pairs).astype(np.uint64)
    going = np.arange(len(pairs))
    for length in range(2, longest):
        found = data.take(after[going], mode="clip")
        values[going] |= (found & 0x7F).astype(np.uint64) << np.uint64(7 * length)
        after[going] += 1
        going = going[found > 0x7F]
        if not going.size:
            return values, after
    raise Malformed(f"a variable-length integer is longer than {longest} bytes")


def _joined(pairs: Pairs) -> Pairs:
    """The unsigned integers that begin with each two bytes: their last seven bits count, if the first goes on."""
    first, second = pairs & np.uint16(0x7F), pairs >> np.uint16(1) & np.uint16(0x3F80)
    return np.where(pairs & np.uint16(0x80), first | second, first)


def signed(values: NDArray[np.uint64]) -> Positions:
    """The integers that zigzag encodes so."""
    return (values >> _ONE).view(np.int64) ^ -(values & _ONE).view(np.int64)


_OF_TWO_BYTES: Final = signed(_joined(np.arange(1 << 16, dtype=np.uint16)).astype(np.uint64))
"""The signed integer that begins with each two bytes, if it has no more of them."""
_OF_ONE_BYTE: Final = _OF_TWO_BYTES[:256].copy()
