"""The fields of all records in some sections, as arrays of positions and numbers: nothing is copied.

A record: length, attributes, timestampDelta, offsetDelta, key, value, headers (`kpywire.record`).

Invariant: the arrays agree with `kpywire.record.read_batch`, or Malformed is raised: every length is compared with the
record around it before its bytes are used.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpywire.columns.varints import Bytes, Positions, after_varints, varints, varlongs
from kpywire.errors import Malformed
from kpywire.varint import decode_varint

HEADER_BYTES: Final = 2
"""A header has one byte for the length of its key, and one for that of its value, at least."""
HEADERS_AT_ONCE: Final = 16
"""The headers of records that are read together; the rest of a record with more is read one by one."""


class ByteSlices(NamedTuple):
    """Byte strings in a buffer: where each begins, and its length, which is negative for null."""

    starts: Positions
    lengths: Positions


NO_SLICES: Final = ByteSlices(np.zeros(0, np.int64), np.zeros(0, np.int64))


class RecordFields(NamedTuple):
    """The fields of some records, in their order."""

    timestamp_deltas: Positions
    offset_deltas: Positions
    keys: ByteSlices
    values: ByteSlices
    header_counts: Positions
    header_keys: ByteSlices
    header_values: ByteSlices
    """The headers of all records, one record after the other."""


def fields_of(data: Bytes, positions: Positions, ends: Positions) -> RecordFields:
    """The fields of the records at ``positions``, which end at ``ends``. Raises Malformed."""
    timestamp_deltas, at = varlongs(data, after_varints(data, positions) + 1)
    offset_deltas, at = varints(data, at)
    keys, at = _byte_strings(data, at)
    values, at = _byte_strings(data, at)
    counts, at = varints(data, at)
    if counts.any() and ((counts < 0) | (HEADER_BYTES * counts > ends - at)).any():
        raise Malformed("a record with more headers than bytes")
    header_keys, header_values = _headers(data, counts, at, ends)
    return RecordFields(timestamp_deltas, offset_deltas, keys, values, counts, header_keys, header_values)


def _byte_strings(data: Bytes, at: Positions) -> tuple[ByteSlices, Positions]:
    lengths, starts = varints(data, at)
    return ByteSlices(starts, lengths), starts + np.maximum(lengths, 0)


def _headers(data: Bytes, counts: Positions, at: Positions, ends: Positions) -> tuple[ByteSlices, ByteSlices]:
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
    header_keys, header_values = ByteSlices(parts[0], parts[1]), ByteSlices(parts[2], parts[3])
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
