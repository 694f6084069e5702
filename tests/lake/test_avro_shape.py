"""The shape of Avro schemas: depth, number of values, and whether a value takes a byte."""

from typing import Any

import pytest

from kpybroker.machines.schemas.avro_shape import MOST_DEPTH, MOST_VALUES, RECURSIVE, AvroShape, shape_of
from kpybroker.machines.schemas.errors import Unknown


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": f"x{size}", "size": size}


@pytest.mark.parametrize(
    ("schema", "depth", "values", "takes_bytes"),
    [
        ("int", 1, 1, True),
        ("null", 1, 1, False),
        ({"type": "string"}, 1, 1, True),
        ({"type": "null"}, 1, 1, False),
        (fixed(4), 1, 1, True),
        (fixed(0), 1, 1, False),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, 1, 1, True),
        ([], 1, 1, True),
        (["null", "int"], 2, 1, True),
        (["null", record("r", "int", "int")], 3, 2, True),
        (record("r"), 1, 1, False),
        (record("r", "null"), 2, 1, False),
        (record("r", "null", "int", "string"), 2, 3, True),
        (record("r", record("s", "int", "int"), "int"), 3, 3, True),
        ({"type": "array", "items": "int"}, 2, 1, True),
        ({"type": "array", "items": record("r", "int", "int")}, 3, 2, True),
        ({"type": "map", "values": "null"}, 2, 1, True),
        ({"type": "map", "values": record("r", "int", "int")}, 3, 2, True),
        ({"type": ["null", "int"]}, 2, 1, True),
        ({"type": {"type": "array", "items": "int"}}, 2, 1, True),
        (record("r", fixed(2), "x2", "x2"), 2, 3, True),
        (record("r", record("s", "int", "int"), "s"), 3, 4, True),
    ],
)
def test_depth_and_size_of_an_avro_type_are_measured(schema: Any, depth: int, values: int, takes_bytes: bool) -> None:
    assert shape_of(schema, {}) == AvroShape(depth, values, takes_bytes)


@pytest.mark.parametrize("items", ["null", fixed(0), record("r"), record("r", "null")])
def test_an_array_whose_items_take_no_bytes_is_not_read(items: Any) -> None:
    with pytest.raises(Unknown, match="an array has items that take no bytes"):
        shape_of({"type": "array", "items": items}, {})


def test_a_type_within_itself_is_deeper_than_any_other() -> None:
    tree = record("t", "int", ["null", "t"])
    assert shape_of(tree, {}).depth == RECURSIVE > MOST_DEPTH
    deep: Any = "int"
    for number in range(MOST_DEPTH - 1):
        deep = record(f"r{number}", deep)
    assert shape_of(deep, {}).depth == MOST_DEPTH
    for number in range(5):
        deep = record(f"s{number}", deep)
    assert shape_of(deep, {}).depth == RECURSIVE


def test_a_record_that_doubles_at_each_level_is_not_read() -> None:
    assert shape_of(record("r", *["int"] * MOST_VALUES), {}).values == MOST_VALUES
    with pytest.raises(Unknown, match=f"more than {MOST_VALUES} values"):
        shape_of(record("r", *["int"] * (MOST_VALUES + 1)), {})
    doubled: Any = "int"
    for number in range(20):
        doubled = record(f"r{number}", doubled, doubled)
    with pytest.raises(Unknown):
        shape_of(doubled, {})
