"""The shape of an Avro schema, by which a few hostile bytes cannot take all memory, time or stack. Pure."""

from typing import Any, Final, NamedTuple

from kpybroker.machines.schemas.errors import Unknown

MOST_VALUES: Final = 10_000
"""The most values that a record has without its arrays and maps: a schema that doubles at each level has more."""
MOST_DEPTH: Final = 100
"""Deeper values are read by a reader that watches its stack."""
RECURSIVE: Final = MOST_DEPTH + 1


class AvroShape(NamedTuple):
    """The shape of values of a type."""

    depth: int
    """The levels of types within one another; more than `MOST_DEPTH` for a type that has itself within."""
    values: int
    """The number of values in one, of which arrays and maps count once."""
    takes_bytes: bool
    """Whether each value takes a byte at least."""


def shape_of(schema: Any, known: dict[str, AvroShape]) -> AvroShape:
    """The shape of a parsed schema; ``known`` has those of named types, and gets more. Unknown for one that is not
    read: its values could have any number of items without a byte for each."""
    if isinstance(schema, list):
        found = [shape_of(each, known) for each in schema] or [AvroShape(0, 1, takes_bytes=True)]
        return _bounded(max(each.depth for each in found), max(each.values for each in found), takes_bytes=True)
    if isinstance(schema, str):
        return known.get(schema) or AvroShape(1, 1, schema != "null")
    kind = schema["type"]
    if kind in ("record", "error"):
        known[schema["name"]] = AvroShape(RECURSIVE, 1, takes_bytes=True)  # while its own fields are measured
        found = [shape_of(each["type"], known) for each in schema["fields"]]
        depth, values = max((each.depth for each in found), default=0), sum(each.values for each in found)
        known[schema["name"]] = _bounded(depth, values, takes_bytes=any(each.takes_bytes for each in found))
        return known[schema["name"]]
    if kind == "array":
        items = shape_of(schema["items"], known)
        if not items.takes_bytes:
            raise Unknown("an array has items that take no bytes")
        return _bounded(items.depth, items.values, takes_bytes=True)
    if kind == "map":
        found_values = shape_of(schema["values"], known)
        return _bounded(found_values.depth, found_values.values, takes_bytes=True)
    if isinstance(kind, list | dict):
        return shape_of(kind, known)
    found_kind = AvroShape(1, 1, schema.get("size") != 0 and kind != "null")
    if "name" in schema:
        known[schema["name"]] = found_kind
    return known.get(kind, found_kind)


def _bounded(depth: int, values: int, *, takes_bytes: bool) -> AvroShape:
    """The shape of a type around others."""
    if values > MOST_VALUES:
        raise Unknown(f"a record has more than {MOST_VALUES} values")
    return AvroShape(min(depth + 1, RECURSIVE), max(values, 1), takes_bytes)
