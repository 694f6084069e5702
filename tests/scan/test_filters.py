"""Filters: what their texts mean, which rows they keep, and that pruning never takes away a row that is kept."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.filter_text import parse_filter
from kpybroker.machines.scan.filters import (
    OPERATORS,
    AllOf,
    AnyOf,
    Column,
    ColumnIn,
    Compare,
    Filter,
    Interval,
    IsNull,
    Like,
    Not,
    columns_of,
    interval,
    may_hold,
)
from kpybroker.machines.scan.pruning import earliest_times_ms, from_times, pruned
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.scan.containing import containing
from kpybroker.pipeline.scan.row_filter import kept, like_expression
from kpywire.columns.schema import TYPES

VALUES = [
    b'{"n": 1, "s": "a", "deep": {"x": true}}',
    b'{"n": 2.0, "s": "b\\u0061"}',
    b'{"n": "1", "s": null}',
    b"no json",
    None,
    b"[1]",
    b'{"s": "a%c"}',
    b'{"n": 9, "s": "abc"}',
]


def rows_of(records: list[dict[str, Any]]) -> pa.RecordBatch:
    plain = {"key": None, "value": None, "topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0}
    full = [plain | record for record in records]
    arrays = [pa.array([record[name] for record in full], TYPES[name]) for name in plain]
    return pa.RecordBatch.from_arrays(arrays, names=list(plain))


def offsets_for(text: str, records: list[dict[str, Any]]) -> list[int]:
    rows = rows_of([{"offset": number} | record for number, record in enumerate(records)])
    found: list[int] = kept(parse_filter(text), rows).column("offset").to_pylist()
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value.n = 1", [0]),
        ("value.n >= 2", [1, 7]),
        ("value.s = 'a'", [0]),
        ("value.s = 'ba'", [1]),
        ("value.s in ('a', 'abc')", [0, 7]),
        ("not value.s = 'a'", [1, 6, 7]),
        ("not (value.s = 'a' and value.n = 1)", [1, 6, 7]),
        ("value.s like 'a%'", [0, 6, 7]),
        (r"value.s like 'a\%c'", [6]),
        ("value.s like 'a_c'", [6, 7]),
        ("value.s is null", [2, 3, 4, 5]),
        ("value.deep.x = true", [0]),
        ("value.n != 1", [1, 7]),
        ("value.s = 'a' or value.n = 9", [0, 7]),
        ("value is null", [4]),
        ("value = 'no json'", [3]),
        ("value = X'6e6f206a736f6e'", [3]),
        ("value in ('no json', '[1]')", [3, 5]),
        ("value like '%json'", [3]),
        ("value not in ('no json')", [0, 1, 2, 5, 6, 7]),
        ("offset between 2 and 3 or offset = 7", [2, 3, 7]),
        ("offset >= 7 and value.s = 'abc'", [7]),
        ("offset <> 0 and not value.n > 1", []),
        ("topic = 't' and partition in (1, 2)", []),
        ("partition < 99999999999 and partition in (0, 99999999999) and offset = 3", [3]),
    ],
)
def test_a_text_keeps_the_rows_for_which_it_is_true(text: str, expected: list[int]) -> None:
    assert offsets_for(text, [{"value": value} for value in VALUES]) == expected


def test_times_are_texts_or_milliseconds() -> None:
    noon = [{"timestamp": 1_769_860_800_000_000 + shift} for shift in (-1, 0, 1)]
    assert offsets_for("timestamp >= '2026-01-31T12:00:00Z'", noon) == [1, 2]
    assert offsets_for("timestamp < '2026-01-31T13:00:00+01:00'", noon) == [0]
    assert offsets_for("TIMESTAMP = 1769860800000", noon) == [1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("offset", "=, !=, <, <=, >, >=, in, like, between or is null is expected at 'its end'"),
        ("offset = 'x'", "offset is a whole number of at most 64 bits at \"'x'\""),
        ("offset = 1.5", "offset is a whole number"),
        ("offset = true", "offset is a whole number"),
        ("offset = 99999999999999999999", "offset is a whole number of at most 64 bits"),
        ("timestamp = 9999999999999999999", "timestamp is a time in milliseconds since 1970"),
        ("offset.x = 1", "offset has no fields"),
        ("offset like '1%'", "in, between or a comparison is expected"),
        ("colour = 1", "there is no column colour; there are key, value"),
        ("headers is null", "headers cannot be filtered"),
        ("value.n = X'00'", "value.n is a JSON field, which is never bytes"),
        ("value = 5", r"value is bytes; a JSON field of it is value\.NAME"),
        ("timestamp > 'noon'", "timestamp is a time such as"),
        ("topic = 1", "topic is a text"),
        ("offset = 1 offset = 2", "and, or or the end is expected"),
        ("(offset = 1", r"\) is expected at 'its end'"),
        ("offset in ()", "a value: 5"),
        ("offset = 1; drop", "cannot be read"),
        ("value.s like 5", "a pattern such as"),
        ("not " * 500 + "offset = 1", "nested too deeply"),
    ],
)
def test_a_wrong_text_is_one_line_that_names_the_place(text: str, problem: str) -> None:
    with pytest.raises(BadOption, match=problem) as raised:
        parse_filter(text)
    assert "\n" not in str(raised.value)


@given(st.text())
def test_any_text_is_a_filter_or_a_bad_option(text: str) -> None:
    try:
        found = parse_filter(text)
    except BadOption:
        return
    assert columns_of(found)


TOPICS, NUMBERS = st.sampled_from(["t", "u", "t_x"]), st.integers(0, 6)
JSON_VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["a", "b", "é", "x\\y"]))


def comparisons() -> st.SearchStrategy[Filter]:
    numbers = st.builds(
        Compare,
        st.sampled_from([Column("offset"), Column("partition"), Column("timestamp")]),
        st.sampled_from(list(OPERATORS)),
        NUMBERS,
    )
    lists = st.builds(
        lambda chosen: ColumnIn(Column("offset"), tuple(chosen)), st.lists(NUMBERS, min_size=1, max_size=3)
    )
    topics = st.builds(Compare, st.just(Column("topic")), st.sampled_from(["=", "!="]), TOPICS)
    literals = JSON_VALUES.filter(lambda value: value is not None)
    fields = st.builds(Compare, st.just(Column("value", ("f",))), st.sampled_from(list(OPERATORS)), literals)
    few = st.builds(lambda chosen: ColumnIn(Column("value", ("f",)), tuple(chosen)), st.lists(literals, min_size=1))
    nulls = st.builds(IsNull, st.sampled_from([Column("value"), Column("value", ("f",)), Column("key")]))
    likes = st.builds(
        Like, st.sampled_from([Column("topic"), Column("value", ("f",))]), st.sampled_from(["t%", "_", ""])
    )
    return st.one_of(numbers, lists, topics, fields, few, nulls, likes)


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: AllOf(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: AnyOf(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)
RECORDS = st.fixed_dictionaries(
    {
        "topic": TOPICS,
        "partition": NUMBERS,
        "offset": NUMBERS,
        "timestamp": NUMBERS,
        "key": st.one_of(st.none(), st.just(b"k")),
        "value": st.one_of(st.none(), st.just(b"{"), JSON_VALUES.map(lambda f: json.dumps({"f": f}).encode())),
    }
)


def truth(condition: Filter, record: dict[str, Any]) -> bool | None:
    """The result by SQL's rules, one row at a time."""
    match condition:
        case Not(part):
            result = truth(part, record)
            return None if result is None else not result
        case AllOf(parts) | AnyOf(parts):
            ends = isinstance(condition, AnyOf)
            results = [truth(part, record) for part in parts]
            return ends if ends in results else None if None in results else not ends
    value = record[condition.column.name]
    if condition.column.path:
        try:
            value = json.loads(value).get("f")
        except (TypeError, ValueError):
            value = None
    if isinstance(condition, IsNull):
        return value is None
    if value is None:
        return None
    match condition:
        case Compare(_, operator, literal):
            return OPERATORS[operator](value, literal) if type(value) is type(literal) else None
        case ColumnIn(_, literals):
            return any(type(value) is type(each) and value == each for each in literals)
        case Like(_, pattern):
            return like_expression(pattern).fullmatch(value) is not None if isinstance(value, str) else None
    raise AssertionError(condition)


@given(FILTERS, st.lists(RECORDS, max_size=8))
def test_columns_are_filtered_as_rows_one_by_one(condition: Filter, records: list[dict[str, Any]]) -> None:
    expected = [number for number, record in enumerate(records) if truth(condition, record) is True]
    rows = rows_of(records).append_column("number", pa.array(range(len(records)), pa.int64()))
    assert kept(condition, rows).column("number").to_pylist() == expected


BYTES = st.lists(st.none() | st.binary(max_size=6) | st.text("ab", max_size=8).map(str.encode), max_size=12)


@given(BYTES, st.text("ab", min_size=1, max_size=3), st.integers(0, 3), st.integers(0, 3))
def test_one_search_finds_the_rows_that_contain_a_text(
    rows: list[bytes | None], text: str, first: int, left: int
) -> None:
    column = pa.array(rows, pa.binary()).slice(first, max(len(rows) - first - left, 0))
    expected = [row is not None and (text.encode() in row or b"\\" in row) for row in column.to_pylist()]
    assert containing(column, [text.encode(), b"\\"]).to_pylist() == expected


@given(FILTERS, RECORDS)
def test_no_row_that_is_kept_is_excluded_before(condition: Filter, record: dict[str, Any]) -> None:
    if truth(condition, record) is not True:
        return
    known = {"topic": record["topic"], "partition": record["partition"]}
    assert may_hold(condition, known)
    for name in ("offset", "timestamp"):
        low, high = interval(condition, name, known)
        assert low is None or low <= record[name]
        assert high is None or record[name] <= high
    part = OffsetRange(record["topic"], b"", record["partition"], 0, 10)
    (left,) = pruned([part], condition)
    assert left.start_offset <= record["offset"] < left.end_offset


def test_partitions_and_offsets_are_pruned() -> None:
    parts = [OffsetRange(topic, b"", partition, 0, 100) for topic in "ab" for partition in (0, 1)]
    condition = parse_filter("(topic = 'a' and offset >= 10 and offset < 20) or (topic = 'b' and partition = 1)")
    assert [str(part) for part in pruned(parts, condition)] == ["a-0 [10, 20)", "a-1 [10, 20)", "b-1 [0, 100)"]
    assert pruned(parts, parse_filter("offset > 200")) == []
    assert pruned(parts, None) == parts


def test_a_time_is_asked_of_the_brokers_where_no_earlier_record_is_wanted() -> None:
    parts = [OffsetRange("a", b"", 0, 5, 100), OffsetRange("b", b"", 0, 0, 100), OffsetRange("c", b"", 0, 0, 9)]
    condition = parse_filter("timestamp > '1970-01-01T00:00:02Z' and topic != 'c' or topic = 'c'")
    times = earliest_times_ms(parts, condition)
    assert times == {("a", 0): 2001, ("b", 0): 2001}
    assert from_times(parts, {("a", 0): 50, ("b", 0): -1}) == [parts[0]._replace(start_offset=50), parts[2]]
    assert from_times(parts, {("a", 0): 2, ("b", 0): 100}) == [parts[0], parts[2]]


def test_intervals_meet_and_join() -> None:
    assert Interval(1, 5).meet(Interval(3, None)) == Interval(3, 5)
    assert Interval(1, 2).join(Interval(9, None)) == Interval(1, None)
    assert Interval(2, 1).join(Interval(5, 6)) == Interval(5, 6)
