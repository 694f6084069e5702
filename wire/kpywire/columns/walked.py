"""Records whose positions were found one by one: their fields as arrays of positions and numbers, then as columns.

A record: length, attributes, timestampDelta, offsetDelta, key, value, headers (`kpywire.record`).

Invariant: the arrays agree with `kpywire.record.read_batch`, or Malformed is raised: every length is compared with the
record around it before its bytes are used.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpywire.columns import arrays
from kpywire.columns.slices import NO_SLICES, Slices
from kpywire.columns.varints import Bytes, Positions, varints, varlongs
from kpywire.errors import Malformed
from kpywire.varint import decode_varint

HEADER_BYTES: Final = 2
"""A header has one byte for the length of its key, and one for that of its value, at least."""
HEADERS_AT_ONCE: Final = 16
"""The headers of records that are read together; the rest of a record with more is read one by one."""


class Walked(NamedTuple):
    """Records, one behind the other, which fill a section, and where each begins."""

    section: bytes
    positions: Positions


class WalkedRows:
    """The rows of walked records, in several stretches, which are decoded together, field by field. Malformed if they
    cannot be."""

    def __init__(self, stretches: Sequence[Walked]) -> None:
        sections = [each.section for each in stretches]
        whole = sections[0] if len(sections) == 1 else b"".join(sections)
        bases = accumulate(map(len, sections[:-1]), initial=0)
        found = [each.positions + base for each, base in zip(stretches, bases, strict=True)]
        positions = np.concatenate(found)
        self._fields = fields_of(np.frombuffer(whole, np.uint8), positions, np.append(positions[1:], len(whole)))
        self._buffer = pa.py_buffer(whole)
        self.counts = list(map(len, found))
        self.timestamp_deltas = self._fields.timestamp_deltas
        self.offset_deltas = self._fields.offset_deltas

    def keys(self) -> pa.Array:
        return arrays.byte_strings(self._buffer, self._fields.keys)

    def values(self) -> pa.Array:
        return arrays.byte_strings(self._buffer, self._fields.values)

    def headers(self) -> pa.Array:
        fields = self._fields
        return arrays.headers(self._buffer, fields.header_counts, fields.header_keys, fields.header_values)


class Fields(NamedTuple):
    """The fields of some records, in their order."""

    timestamp_deltas: Positions
    offset_deltas: Positions
    keys: Slices
    values: Slices
    header_counts: Positions
    header_keys: Slices
    header_values: Slices
    """The headers of all records, one record after the other."""


def fields_of(data: Bytes, positions: Positions, ends: Positions) -> Fields:
    """The fields of the records at ``positions``, which end at ``ends``. Raises Malformed."""
    _, at = varints(data, positions)
    timestamp_deltas, at = varlongs(data, at + 1)
    offset_deltas, at = varints(data, at)
    keys, at = _byte_strings(data, at)
    values, at = _byte_strings(data, at)
    counts, at = varints(data, at)
    if ((counts < 0) | (HEADER_BYTES * counts > ends - at)).any():
        raise Malformed("a record with more headers than bytes")
    header_keys, header_values = _headers(data, counts, at, ends)
    return Fields(timestamp_deltas, offset_deltas, keys, values, counts, header_keys, header_values)


def _byte_strings(data: Bytes, at: Positions) -> tuple[Slices, Positions]:
    lengths, starts = varints(data, at)
    return Slices(starts, lengths), starts + np.maximum(lengths, 0)


def _headers(data: Bytes, counts: Positions, at: Positions, ends: Positions) -> tuple[Slices, Slices]:
    """The headers of all records. Raises Malformed if a record does not end behind them."""
    total = int(counts.sum())
    if not total:
        if (at != ends).any():
            raise Malformed("a record does not end behind its last field")
        return NO_SLICES, NO_SLICES
    firsts = np.cumsum(counts) - counts
    parts = [np.zeros(total, np.int64) for _ in range(4)]
    at = at.copy()
    for number in range(HEADERS_AT_ONCE):
        having = np.flatnonzero(counts > number)
        if not having.size:
            break
        keys, after = _byte_strings(data, at[having])
        values, at[having] = _byte_strings(data, after)
        places = firsts[having] + number
        for part, found in zip(parts, (*keys, *values), strict=True):
            part[places] = found
    for record in np.flatnonzero(counts > HEADERS_AT_ONCE):
        at[record] = _many_headers(data, int(at[record]), int(firsts[record]), int(counts[record]), parts)
    if (at != ends).any():
        raise Malformed("a record does not end behind its last field")
    header_keys, header_values = Slices(parts[0], parts[1]), Slices(parts[2], parts[3])
    if (header_keys.lengths < 0).any():
        raise Malformed("a record header without a key")
    return header_keys, header_values


def _many_headers(data: Bytes, at: int, first: int, count: int, parts: Sequence[NDArray[np.int64]]) -> int:
    """Read the headers of one record from the 17th on; the position after them."""
    buffer = data.data
    for place in range(first + HEADERS_AT_ONCE, first + count):
        for starts, lengths in ((parts[0], parts[1]), (parts[2], parts[3])):
            length, at = decode_varint(buffer, at)
            starts[place], lengths[place] = at, length
            at += max(length, 0)
    return at
