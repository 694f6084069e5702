"""Arrow arrays of numbers, and of slices of a buffer. Numbers are not copied; bytes are copied once, by Arrow.

`pyarrow.array` and `pyarrow.scalar` are not used: they load pandas where that is installed, which takes a third of a
second.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpywire.columns.schema import HEADER
from kpywire.columns.sections import ByteSlices


def numbers(values: NDArray[Any], of_type: pa.DataType, is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of these numbers, which have the width of ``of_type``, with null where that is said."""
    valid = None if is_null is None else _bits(~is_null)
    return pa.Array.from_buffers(of_type, len(values), [valid, pa.py_buffer(values)])


def booleans(values: NDArray[np.bool_]) -> pa.Array:
    """An array of these."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def repeated(value: str | int, of_type: pa.DataType, count: int) -> pa.Array:
    """An array that has a text, or a number of 32 bits, ``count`` times."""
    if isinstance(value, int):
        one = numbers(np.array([value], np.int32), of_type)
    else:
        text = value.encode()
        bounds = np.array([0, len(text)], np.int32)
        one = pa.Array.from_buffers(of_type, 1, [None, pa.py_buffer(bounds), pa.py_buffer(text)])
    return one.take(numbers(np.zeros(count, np.int32), pa.int32()))


def _bits(values: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def byte_strings(buffer: pa.Buffer, slices: ByteSlices) -> pa.Array:
    """A binary array of these slices, which must not overlap and must ascend; those of a negative length are null."""
    count = len(slices.starts)
    if not count:
        return pa.nulls(0, pa.binary())
    is_null = slices.lengths < 0
    if is_null.all():
        return pa.nulls(count, pa.binary())
    # Arrow picks every other one of the strings that the bounds of all slices make, and leaves out what is between.
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = slices.starts
    bounds[1::2] = slices.starts + np.maximum(slices.lengths, 0)
    every = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), buffer])
    chosen = np.arange(0, 2 * count, 2, dtype=np.int32)
    return every.take(numbers(chosen, pa.int32(), is_null if is_null.any() else None))


def headers(buffer: pa.Buffer, counts: NDArray[np.int64], keys: ByteSlices, values: ByteSlices) -> pa.Array:
    """The headers of records, null where a record has none."""
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    pairs = pa.StructArray.from_arrays(
        [_texts(byte_strings(buffer, keys)), byte_strings(buffer, values)], fields=list(HEADER)
    )
    is_null = np.append(counts == 0, False)
    return pa.ListArray.from_arrays(numbers(bounds, pa.int32(), is_null), pairs, type=pa.list_(HEADER))


def _texts(encoded: pa.Array) -> pa.Array:
    """Strings; bytes that are no UTF-8 are replaced, as Java does."""
    try:
        return encoded.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text.as_py().decode("utf-8", "replace") for text in encoded], pa.string())
