"""JSON objects that fit the columns of a table exactly, parsed by Arrow at once instead of one by one.

Invariant: where Arrow reads a document in another way than Python and `kpybroker.machines.lake.json_schema` would, or
where a document needs a new column or is a dead letter, the answer is None, and the documents are read one by one.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from kpybroker.machines.lake.json_schema import BOOLEAN, DOUBLE, JSON, LONG, STRING

TYPES: Final = {
    BOOLEAN: pa.bool_(),
    LONG: pa.int64(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    JSON: pa.string(),
}
MOST_BYTES: Final = 1 << 30
EXACT: Final = float(1 << 53)
"""Whole numbers up to this are doubles without a loss."""
IS_FLAT: Final = r'\A\s*\{(?:[^"{}\[\]]|"(?:[^"\\]|\\.)*")*\}\s*\z'
"""Text that is one object at most, without other objects or lists in it, or no JSON.

Arrow takes one document after the other whatever values they are in, and a null that is not in a document ends the
process. So nothing else comes to it.
"""


def parsed(values: pa.ChunkedArray, types: Mapping[str, str]) -> list[pa.ChunkedArray] | None:
    """The columns of these types, in their order, if all values are objects that have no other fields."""
    if not types or values.null_count or values.nbytes > MOST_BYTES:
        return None
    fields = pa.schema([(name, TYPES[kind]) for name, kind in types.items()])
    options = ParseOptions(explicit_schema=fields, unexpected_field_behavior="error")
    try:
        texts = values.cast(pa.string())  # Arrow's parser takes any bytes for UTF-8
        content = pc.binary_join_element_wise(texts.combine_chunks(), "\n", "").buffers()[2]
        if not _are_flat(texts, content):
            return None
        block = ReadOptions(use_threads=False, block_size=content.size + 1)
        found = read_json(pa.BufferReader(content), block, options)
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        return None
    cells: list[pa.ChunkedArray] = found.columns
    is_read_alike = all(_is_plain(each) for each, kind in zip(cells, types.values(), strict=True) if kind == DOUBLE)
    return cells if is_read_alike and found.num_rows == len(values) else None


def _are_flat(texts: pa.ChunkedArray, content: pa.Buffer) -> bool:
    """Whether every text matches `IS_FLAT`. ``content`` is all texts together; counting its braces mostly decides."""
    found = np.frombuffer(content, np.uint8)
    if all(np.count_nonzero(found == ord(brace)) == len(texts) for brace in "{}"):
        are_within = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
        if pc.all(are_within).as_py():
            return True
    return bool(pc.all(pc.match_substring_regex(texts, pattern=IS_FLAT)).as_py())


def _is_plain(doubles: pa.ChunkedArray) -> bool:
    """Whether Arrow and Python read these numbers alike: there is no NaN, infinity, large whole number or -0."""
    found = doubles.drop_null().to_numpy()
    return bool((np.abs(found) < EXACT).all()) and not np.signbit(found[found == 0]).any()
