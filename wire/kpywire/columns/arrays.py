"""Arrow arrays of slices of a buffer. The bytes are copied once, by Arrow."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpywire.columns.schema import HEADER
from kpywire.columns.sections import Slices


def byte_strings(buffer: pa.Buffer, slices: Slices) -> pa.Array:
    """A binary array of these slices, which must not overlap and must ascend; those of a negative length are null."""
    count = len(slices.starts)
    if not count:
        return pa.array([], pa.binary())
    is_null = slices.lengths < 0
    if is_null.all():
        return pa.nulls(count, pa.binary())
    # Arrow picks every other one of the strings that the bounds of all slices make, and leaves out what is between.
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = slices.starts
    bounds[1::2] = slices.starts + np.maximum(slices.lengths, 0)
    every = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), buffer])
    chosen = np.arange(0, 2 * count, 2, dtype=np.int32)
    return every.take(pa.array(chosen, mask=is_null if is_null.any() else None))


def headers(buffer: pa.Buffer, counts: NDArray[np.int64], keys: Slices, values: Slices) -> pa.Array:
    """The headers of records, null where a record has none."""
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    pairs = pa.StructArray.from_arrays(
        [_texts(byte_strings(buffer, keys)), byte_strings(buffer, values)], fields=list(HEADER)
    )
    is_null = np.append(counts == 0, False)
    return pa.ListArray.from_arrays(pa.array(bounds, mask=is_null), pairs, type=pa.list_(HEADER))


def _texts(encoded: pa.Array) -> pa.Array:
    """Strings; bytes that are no UTF-8 are replaced, as Java does."""
    try:
        return encoded.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text.as_py().decode("utf-8", "replace") for text in encoded], pa.string())
