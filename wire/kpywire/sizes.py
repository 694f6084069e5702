"""The sizes of values: the least bytes on the wire, and the memory that they take, about and at most.

A few bytes of a request can ask for a hundred times as many bytes of objects (a compact array of empty structs, two
bytes each), so a decoder has a budget, and pays the prices here for each element before it makes it.
"""

from functools import cache
from struct import Struct, calcsize

from kpywire.schema import Shape, fields_of

FORMATS = {
    "i8": "b", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "f64": "d", "bool": "?", "uuid": "16s",
}  # fmt: skip
MAX_OBJECT_BYTES = 1 << 26  # that all elements of arrays in one message may take
SHORT_ARRAY_LENGTH = 17
PART_BYTES = 1 << 20  # of a message that is encoded in steps: more begin another part
MOST_PARTS = 128  # of such a message
MOST_FIELD_BYTES = 1 << 24  # of one field in a message that is decoded in steps
FEW_OBJECT_BYTES = 1 << 19  # of elements that are decoded at once, where a message may have many
MOST_TAGGED_FIELDS = 1024  # of one struct, in a message that is not decoded in steps
TAGGED_FIELD_BYTES = 512  # the price of a tagged field: unknown ones take no memory, but time

# What CPython spends on a value, in addition to the bytes of a string or buffer, rounded up.
_OBJECT_BYTES = {"bool": 0, "string": 80, "bytes": 40, "uuid": 56, "record_batches": 200, "array": 100}
_NUMBER_BYTES = 32
_ANSWERED_BYTES = 200
_STRUCT_BYTES = 40
_SLOT_BYTES = 8


@cache
def short_arrays(layout: str) -> tuple[Struct, ...]:
    """Arrays of numbers of one format, by their length, for common lengths: replicas, partitions, epochs."""
    return tuple(Struct(f">{length}{layout}") for length in range(SHORT_ARRAY_LENGTH))


def least_bytes(shape: Shape, version: int, *, flexible: bool, nullable: bool = False) -> int:
    """The fewest bytes that a value of this shape takes."""
    if shape.kind in FORMATS:
        return calcsize(">" + FORMATS[shape.kind])
    if shape.struct is None:
        return 1 if flexible else 2 if shape.kind == "string" else 4
    if nullable:
        return 1
    present = [each for each in fields_of(shape.struct) if version in each.versions and each.tag is None]
    sizes = [least_bytes(each.shape, version, flexible=flexible, nullable=version in each.nullable) for each in present]
    return sum(sizes) + flexible


def element_price(shape: Shape, version: int) -> int:
    """About how much memory an element of an array takes, apart from what depends on the lengths in it.

    Numbers pass through a tuple, other elements through a list with room to grow. Most numbers and strings are answered
    one by one, which takes more memory than they do.
    """
    if shape.kind in FORMATS or shape.kind == "string":
        return _ANSWERED_BYTES
    return 2 * _SLOT_BYTES + _object_bytes(shape, version)


def _object_bytes(shape: Shape, version: int) -> int:
    if shape.struct is None:
        return _OBJECT_BYTES.get(shape.kind, _NUMBER_BYTES)
    total = _STRUCT_BYTES
    for each in fields_of(shape.struct):
        total += _SLOT_BYTES
        if version in each.versions:
            total += _object_bytes(each.shape, version)
        elif isinstance(each.default, list):
            total += _OBJECT_BYTES["array"]
    return total
