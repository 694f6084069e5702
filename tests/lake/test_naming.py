"""Names of columns: a field's own in any script, never two that an engine takes for one, and the same for ever."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_topic import FORMATS, ID, MemoryTopic, target_in, writer_of, written

from hostile import NAMES
from kpybroker.machines.lake.json_schema import MOST_COLUMNS, JsonColumns, TooManyColumns
from kpybroker.machines.lake.naming import (
    DELTA,
    ICEBERG,
    RESERVED,
    ColumnNames,
    escaped,
    folded,
    struct_names,
    with_digits,
)
from kpybroker.pipeline.lake.generations import WriteMode, opened
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.tables import FACTS

PLAIN = ("größe", "prénom", "住所", "naïve-key", "a.b", "$id", "@type", 'a"b', "🙂", "x" * 255)


@pytest.mark.parametrize("rule", [DELTA, ICEBERG], ids=FORMATS)
def test_names_in_any_script_stay_as_they_are(rule: Any) -> None:
    assert [ColumnNames(rule, conflicts=True).column(name) for name in PLAIN] == list(PLAIN)


def test_only_names_that_a_format_refuses_get_digits() -> None:
    for name in ("a b", "a,b", "a;b", "a{b", "a}b", "a(b", "a)b", "a\nb", "a\tb", "a=b"):
        assert ColumnNames(DELTA, conflicts=True).column(name) == with_digits(name)
        assert ColumnNames(ICEBERG, conflicts=True).column(name) == name
    for name in ("", "a\0b", "x" * 256):
        assert ColumnNames(ICEBERG, conflicts=True).column(name) == with_digits(name)


@given(st.lists(st.sampled_from(NAMES) | st.text(max_size=2), unique=True, max_size=8), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_two_fields_have_columns_that_an_engine_takes_for_one(fields: list[str], is_delta: bool) -> None:
    rule = DELTA if is_delta else ICEBERG
    names = ColumnNames(rule, conflicts=True)
    columns = []
    for field in fields:
        columns.append(names.column(field))
        names.take(columns[-1])
    columns += [names.conflict(column) for column in columns]
    for same in (str.lower, folded, rule.key):
        known = {same(name) for name in (*RESERVED, *FACTS.names)}
        assert len({same(name) for name in columns} | known) == len(columns) + len(known)
    again = ColumnNames(rule, columns, conflicts=True)
    assert [again.column(field) for field in fields] == columns[: len(fields)]
    inner = struct_names(rule, fields)
    assert len({rule.key(name) for name in inner}) == len(fields)


def test_letters_that_some_engine_takes_for_one_are_one() -> None:
    for one, other in (("ß", "ẞ"), ("İ", "i"), ("ı", "I"), ("ſ", "S"), ("K", "k"), ("µ", "Μ"), ("İ", "i\u0307")):
        assert folded(one) == folded(other), (one, other)
    assert folded("é") != folded("e")


def test_a_table_of_an_earlier_version_keeps_its_names_with_digits() -> None:
    long = "x" * 300
    old = {
        "gr__e__5bd3a989": "long",
        "_OFFSET": "long",
        "x__STR": "string",
        long: "string",
        "_pos": "long",
        "x": "long",
    }
    columns = JsonColumns(old, ICEBERG)
    assert [columns.column(name) for name in ("größe", "_OFFSET", "x__STR", long, "_pos")] == list(old)[:5]
    columns.add({"größe": 1, "x": "word"})
    assert [name for name in columns.types if name not in old] == [with_digits("x") + "__str"]
    assert columns.column("gr__e__5bd3a989") == "gr__e__5bd3a989__" + with_digits("gr__e__5bd3a989")[-8:]


def test_fields_of_the_same_checksum_have_two_columns() -> None:
    one, other = "äìíßÖö ", "úóâùóú "
    assert with_digits(one) == with_digits(other)
    names = ColumnNames(DELTA, conflicts=True)
    assert [names.column(one), names.column(other)] == [with_digits(one), with_digits(other, 1)]


def test_columns_of_others_in_a_table_are_never_a_fields_own() -> None:
    table = pa.schema([*FACTS, ("n", pa.int64()), ("day", pa.date32())])
    raw = pa.table(
        [["id"], [0], [0], [0], [None], [json.dumps({"n": 1, "day": "x", "DAY": "y"}).encode()]],
        schema=pa.schema([*FACTS, ("value", pa.binary())]),
    )
    rows = JsonValues().columns(raw, table).rows
    assert [name for name in rows.column_names if name not in FACTS.names] == [
        "n",
        with_digits("day"),
        with_digits("DAY"),
    ]


def test_the_column_of_a_field_is_found_again_when_the_table_gets_or_loses_one() -> None:
    names = ColumnNames(DELTA, conflicts=True)
    assert names.column("size") == "size"
    names.take("SIZE")
    assert names.column("size") == with_digits("size")
    names.drop(["SIZE"])
    assert names.column("size") == "size"


def test_a_document_with_too_many_fields_adds_no_column() -> None:
    columns = JsonColumns({"n": "long"})
    with pytest.raises(TooManyColumns):
        columns.add({f"f{number}": 1 for number in range(MOST_COLUMNS)})
    assert columns.types == {"n": "long"}
    columns.add({"F1": 1, "f2": "x"})
    assert columns.types == {"n": "long", "F1": "long", "f2": "string"}
    sampled = JsonColumns()
    sampled.learn([{f"f{number}": 1 for number in range(2 * MOST_COLUMNS)}, {"a": 1}])
    assert sampled.types == {"a": "long"}


def test_names_in_files_of_iceberg_are_escaped_as_the_library_does() -> None:
    from pyiceberg.schema import make_compatible_name

    for name in NAMES:
        if name:
            assert escaped(name) == make_compatible_name(name)


RECORDS = (
    {"a": 1},
    {"_OFFSET": 5, "a": 2},
    {"_Timestamp": "t", "_PARTITION": 6},
    {"größe": 1, "GRÖSSE": 2, "A": 3, "x__STR": 1},
)


@pytest.mark.parametrize("kind", FORMATS)
def test_fields_that_equal_other_columns_but_for_case_are_in_columns_with_digits(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    for record in RECORDS:
        topic.put(0, (b"k", json.dumps(record).encode()))
        table = opened(target, topic, ID, WriteMode(values="json"), lambda *_: JsonValues(rule=target.rule))
        writer = writer_of(target, topic, table, values=JsonValues(rule=target.rule))
        writer.take_over(None)
        writer.begin(backfill=False)
        assert written(writer, topic) == 1
    table_now = target.open()
    assert table_now is not None
    rows = sorted((row for batch in table_now.rows(ID) for row in batch.to_pylist()), key=lambda row: row["_offset"])
    for row, record in zip(rows, RECORDS, strict=True):
        found = {name: value for name, value in row.items() if name not in FACTS.names and value is not None}
        expected = {
            name if name in ("a", "größe", "GRÖSSE") else with_digits(name): value for name, value in record.items()
        }
        assert found == expected
