"""Columns of JSON: nothing is lost, no column changes its type, and any bytes are a row or a dead letter."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.lake.json_schema import DOUBLE, JSON, LONG, STRING, JsonColumns, text_of, widened
from kpybroker.machines.lake.naming import CONFLICT
from kpybroker.pipeline.lake.json_values import JsonValues, document_of
from kpybroker.pipeline.lake.tables import BYTES, FACTS, OFFSET
from kpybroker.pipeline.lake.values import sort

KINDS = ["boolean", LONG, DOUBLE, STRING, JSON]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(max_size=3), scalars, max_size=2)
names = st.sampled_from(["a", "A", "b", "b__str", "_offset", "with space", "with_space", "", "é", "_gone"])
documents = st.dictionaries(names, values, max_size=5)


@given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_widening_goes_up_and_does_not_depend_on_the_order(one: str, two: str, three: str) -> None:
    assert widened(one, two) == widened(two, one)
    up = widened(one, two)
    if up is not None:
        assert widened(up, one) == up
        assert widened(up, two) == up
        other = widened(two, three)
        assert widened(up, three) == (None if other is None else widened(one, other))


def back(columns: JsonColumns, row: dict[str, Any], field: str) -> Any:
    """The value of a field as a reader of the table finds it."""
    name = columns.column(field)
    value = row.get(name)
    return row.get(name + CONFLICT) if value is None else value


@given(st.lists(documents, max_size=6), st.lists(documents, max_size=6))
@settings(max_examples=300, deadline=None)
def test_every_value_can_be_read_back_and_columns_keep_their_types(sample: list[Any], later: list[Any]) -> None:
    columns = JsonColumns()
    columns.learn(sample)
    before = dict(columns.types)
    for document in sample + later:
        columns.add(document)
    assert {name: columns.types[name] for name in before} == before
    assert len({name.lower() for name in columns.types}) == len(columns.types)
    assert not {*FACTS.names} & set(columns.types)
    found = columns.values(sample + later)
    for number, document in enumerate(sample + later):
        row = {name: cells[number] for name, cells in found.items()}
        for field, value in document.items():
            seen = back(columns, row, field)
            assert seen == value or seen == text_of(value), (field, value, seen)


@given(st.lists(documents, min_size=1, max_size=6), st.lists(documents, max_size=6))
@settings(max_examples=100, deadline=None)
def test_a_table_that_is_opened_again_has_the_same_columns_for_the_same_fields(one: list[Any], two: list[Any]) -> None:
    through = JsonColumns()
    through.learn(one)
    for document in two:
        through.add(document)
    opened = JsonColumns(through.types)
    for document in two + one:
        opened.add(document)
    assert opened.types == through.types


def test_columns_in_words() -> None:
    columns = JsonColumns()
    columns.learn([{"n": 1, "s": "x", "o": {"a": 1}, "none": None}, {"n": 2.5, "s": 7, "mixed": True}, {"mixed": "no"}])
    assert columns.types == {"n": DOUBLE, "s": STRING, "o": JSON, "mixed": "boolean", "mixed__str": STRING}
    columns.add({"n": "high"})
    assert columns.types["n"] == DOUBLE
    assert columns.types["n__str"] == STRING
    assert columns.values([{"n": "high", "s": 7}])["n__str"] == ["high"]


def raw_of_values(given: list[bytes | None]) -> pa.Table:
    count = len(given)
    return pa.table([["id"] * count, [0] * count, list(range(count)), [0] * count, [None] * count, given], schema=BYTES)


@given(st.lists(st.none() | st.binary(max_size=30) | documents.map(lambda each: json.dumps(each).encode()), max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_row_or_a_dead_letter(given: list[bytes | None]) -> None:
    raw = raw_of_values(given)
    formats = JsonValues()
    table = formats.first_schema(raw.filter(raw["value"].is_valid()))
    found = sort(formats, raw, table)
    assert sorted(found.rows[OFFSET].to_pylist() + found.dead[OFFSET].to_pylist()) == list(range(len(given)))
    assert all(found.dead["_reason"].is_valid().to_pylist())


def test_why_a_value_does_not_fit() -> None:
    reasons = {
        b"\xff": "not UTF-8 at byte 0",
        b"{": "not JSON at character 1",
        b"[1]": "not a JSON object but a list",
        b"null": "not a JSON object but null",
        b'{"a": NaN}': "NaN is not a number of JSON",
        b'{"a": "\\ud800"}': "half a surrogate pair",
        b"[" * 100_000: "nested more than 200 deep",
        b'{"a": ' + b"9" * 5_000 + b"}": "more than 4300 digits",
    }
    for value, words in reasons.items():
        assert words in (document_of(value)[1] or ""), value[:20]
