"""Records that are alike: one behind the other, of one size, with their fields at the same places.

Most producers write such records. Their fields are read as columns of numbers, with a stride from record to record, and
their keys and values are copied once, from the bytes of the batch to the buffer of an Arrow array.

Invariant: records are alike only if each of them is what the first one is, byte for byte, but for attributes,
timestamp, offset, key and value. Records that are not, or that are malformed, are left to `kpywire.columns.walked`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpywire.columns.schema import TYPES
from kpywire.columns.varints import Positions, signed
from kpywire.errors import Malformed
from kpywire.varint import as_int64, decode_varint, decode_varlong

FEWEST: Final = 32
"""Reading records together is worth it from this number on."""
_WORD_BYTES: Final = 8
_WORDS: Final = tuple(np.dtype(name) for name in ("u1", "u1", "<u2", "<u4", "<u4", "<u8", "<u8", "<u8", "<u8"))
"""The smallest number that has some bytes, by their count."""
_GOES_ON: Final = int.from_bytes(b"\x80" * _WORD_BYTES, "little")
"""The bits by which each byte of a varint says whether another one follows."""

_32_BITS: Final = np.uint64(0xFFFF_FFFF)


class Field(NamedTuple):
    """A byte string in each record: its distance from the start of the record, and its length, negative for null."""

    start: int
    length: int


class Alike(NamedTuple):
    """Records that are alike."""

    section: memoryview
    position: int
    count: int
    size: int
    timestamp_deltas: Positions
    offset_deltas: Positions
    key: Field
    value: Field


class _Layout(NamedTuple):
    """The places of a record's fields, from its start."""

    size: int
    timestamp: int
    offset: int
    key_length: int
    key: Field
    value_length: int
    value: Field


def alike(section: memoryview, position: int, most: int) -> Alike | None:
    """The records from ``position`` on that are alike, at most ``most``; None if they are few."""
    layout = _layout(section, position)
    if layout is None:
        return None
    count = min(most, (len(section) - position) // layout.size)
    if count < FEWEST:
        return None
    head = _word(section, position, layout.key_length, layout.size, count)
    varying = (1 << 8 * layout.key_length) - (1 << 8 * layout.timestamp)
    differences = _differences(head, layout.key_length, varying)
    for start, length in _constant(layout):
        differences |= _differences(_word(section, position + start, length, layout.size, count), length)
    if differences.any():
        count = int(differences.astype(np.bool_).argmax())
        if count < FEWEST:
            return None
        head = head[:count]
    timestamps = signed(_varint(head, layout.timestamp, layout.offset).view(np.uint64))
    offsets = signed(_varint(head, layout.offset, layout.key_length).view(np.uint64) & _32_BITS)
    return Alike(section, position, count, layout.size, timestamps, offsets, layout.key, layout.value)


def _layout(section: memoryview, position: int) -> _Layout | None:
    """The layout of the record at ``position``; None if it has headers, a long head or faults."""
    try:
        length, start = decode_varint(section, position)
        timestamp = start + 1
        _, offset = decode_varlong(section, timestamp)
        _, key_length = decode_varint(section, offset)
        key_bytes, key = decode_varint(section, key_length)
        value_length = key + max(key_bytes, 0)
        value_bytes, value = decode_varint(section, value_length)
    except Malformed:
        return None
    end = value + max(value_bytes, 0)
    longest = max(key_length - position, key - key_length + value - value_length)
    if length < 1 or end + 1 != start + length or end >= len(section) or section[end] or longest > _WORD_BYTES:
        return None
    return _Layout(
        size=end + 1 - position,
        timestamp=timestamp - position,
        offset=offset - position,
        key_length=key_length - position,
        key=Field(key - position, key_bytes),
        value_length=value_length - position,
        value=Field(value - position, value_bytes),
    )


def _constant(layout: _Layout) -> list[Field]:
    """The bytes that are the same in all records: both lengths, and the number of headers."""
    headers = Field(layout.size - 1, 1)
    if layout.key.length <= 0:
        return [Field(layout.key_length, layout.value.start - layout.key_length), headers]
    lengths = [
        Field(layout.key_length, layout.key.start - layout.key_length),
        Field(layout.value_length, layout.value.start - layout.value_length),
    ]
    return [*lengths, headers]


def _word(section: memoryview, position: int, length: int, size: int, count: int) -> NDArray[np.int64]:
    """The ``length`` bytes at the same place of each record as numbers; they may have bytes behind them, too."""
    word = _WORDS[length]
    last = position + size * (count - 1)
    if last + word.itemsize > len(section):
        tail = bytes(section[last : last + length])
        numbers = np.empty(count, np.int64)
        numbers[:-1] = np.ndarray((count - 1,), word, section, position, (size,))
        numbers[-1] = int.from_bytes(tail.ljust(_WORD_BYTES, b"\0"), "little", signed=True)
        return numbers
    return np.ndarray((count,), word, section, position, (size,)).astype(np.int64)


def _differences(words: NDArray[np.int64], length: int, varying: int = 0) -> NDArray[np.int64]:
    """The bits of ``length`` bytes that are not those of the first record; of ``varying`` ones only those by which
    varints go on."""
    compared = (1 << 8 * length) - 1 & ~varying | varying & _GOES_ON
    found: NDArray[np.int64] = (words ^ words[0]) & as_int64(compared)
    return found


def _varint(words: NDArray[np.int64], start: int, end: int) -> NDArray[np.int64]:
    """The varint in these bytes of each word."""
    found = words >> 8 * start & 0x7F
    for place in range(start + 1, end):
        found |= (words >> 8 * place & 0x7F) << 7 * (place - start)
    return found


class AlikeRows:
    """The rows of records that are alike, in several stretches."""

    def __init__(self, stretches: Sequence[Alike]) -> None:
        self._stretches = stretches
        self.counts = [each.count for each in stretches]
        self.timestamp_deltas = np.concatenate([each.timestamp_deltas for each in stretches])
        self.offset_deltas = np.concatenate([each.offset_deltas for each in stretches])

    def keys(self) -> pa.Array:
        return self._byte_strings([each.key for each in self._stretches])

    def values(self) -> pa.Array:
        return self._byte_strings([each.value for each in self._stretches])

    def headers(self) -> pa.Array:
        return pa.nulls(sum(self.counts), TYPES["headers"])

    def _byte_strings(self, fields: Sequence[Field]) -> pa.Array:
        """A binary array of one field, whose bytes are copied once."""
        total = sum(self.counts)
        is_there = [field.length >= 0 for field in fields]
        if not any(is_there):
            return pa.nulls(total, pa.binary())
        lengths = [max(field.length, 0) for field in fields]
        bounds = np.zeros(total + 1, np.int32)
        np.cumsum(np.repeat(lengths, self.counts), out=bounds[1:])
        buffer = pa.allocate_buffer(int(bounds[-1]))
        at = 0
        for each, field, length in zip(self._stretches, fields, lengths, strict=True):
            if length:
                whole = np.dtype((np.void, length))
                target = np.ndarray((each.count,), whole, buffer, at)
                target[:] = np.ndarray((each.count,), whole, each.section, each.position + field.start, (each.size,))
                at += each.count * length
        validity = None if all(is_there) else np.packbits(np.repeat(is_there, self.counts), bitorder="little")
        buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(bounds), buffer]
        return pa.Array.from_buffers(pa.binary(), total, buffers)
