"""Text of values: JSON that every parser reads, whatever type is within."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_topic import FORMATS, ID, target_in
from test_avro_values import raw_of

from kpybroker.machines.lake.texts import text_of
from kpybroker.machines.schemas.errors import one_line
from kpybroker.pipeline.lake.formats import SchemaFile, values_of
from kpybroker.pipeline.lake.json_values import document_of
from kpybroker.pipeline.lake.refusing import without_refused
from kpybroker.pipeline.lake.tables import BYTES, Origin
from kpybroker.pipeline.lake.values import sort

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals(allow_nan=False)
    | st.datetimes() | st.dates() | st.times() | st.uuids(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def strict(text: str) -> Any:
    """The value of JSON without the names that Python adds to it."""

    def refused(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refused)


@given(values)
def test_text_of_any_value_is_json_or_the_string_itself(value: Any) -> None:
    text = text_of({"x": value})
    assert strict(text).keys() == {"x"}
    if not isinstance(value, list | dict):
        found = strict(text)["x"]
        assert text_of(value) == (found if isinstance(found, str) else json.dumps(found))


def avro(fields: dict[str, Any]) -> tuple[Any, Any]:
    """The format of records with these fields, and their parsed schema."""
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    return values_of("avro", None, SchemaFile(json.dumps(schema).encode())), fastavro.parse_schema(schema)


def cells_of(fields: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    formats, schema = avro(fields)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    raw = raw_of([out.getvalue()])
    found = sort(formats, raw, formats.first_schema(raw))
    assert not found.dead.num_rows, found.dead.to_pylist()
    return {name: found.rows[name][0].as_py() for name in fields}


def test_maps_and_unions_of_avro_are_text_that_other_programs_read() -> None:
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    either = ["boolean", "double", "bytes", "string"]
    fields = {
        "m": {"type": "map", "values": "bytes"},
        "t": {"type": "map", "values": moment},
        "d": {"type": "map", "values": "double"},
        "p": {"type": "map", "values": price},
        "u": {"type": "map", "values": {"type": "string", "logicalType": "uuid"}},
        **{f"either_{number}": either for number in range(4)},
        "either_4": ["string", "long"],
    }
    record = {
        "m": {"a": b"\x00\xff"},
        "t": {"a": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)},
        "d": {"a": float("nan"), "b": float("-inf"), "c": 1.5},
        "p": {"a": Decimal("12.50")},
        "u": {"a": UUID(int=1)},
        **{f"either_{number}": each for number, each in enumerate((True, float("inf"), b"\xff", "x", 1 << 62))},
    }
    assert cells_of(fields, record) == {
        "m": '{"a":"AP8="}',
        "t": '{"a":"2023-11-14T22:13:20+00:00"}',
        "d": '{"a":"NaN","b":"-Infinity","c":1.5}',
        "p": '{"a":"12.50"}',
        "u": '{"a":"00000000-0000-0000-0000-000000000001"}',
        "either_0": "true",
        "either_1": "Infinity",
        "either_2": "/w==",
        "either_3": "x",
        "either_4": "4611686018427387904",
    }


def reason_of(fields: dict[str, Any], content: bytes) -> str:
    formats, _ = avro(fields)
    raw = raw_of([content])
    found = sort(formats, raw, formats.first_schema(raw))
    assert not found.rows.num_rows, found.rows.to_pylist()
    return str(found.dead["_reason"][0].as_py())


def test_values_beyond_their_logical_types_are_dead_letters_and_never_rounded() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert "a decimal has 8 digits, and not 4" in reason_of({"p": price}, b"\x08" + (12_345_678).to_bytes(4, "big"))
    assert "a time of day is -1000" in reason_of({"t": {"type": "int", "logicalType": "time-millis"}}, b"\x01")
    date = {"type": "int", "logicalType": "date"}
    assert "not of the schema" in reason_of({"d": date}, b"\xfe\xff\xff\xff\x0f")
    digits = {"type": "bytes", "logicalType": "decimal", "precision": 40}
    assert cells_of({"p": digits}, {"p": Decimal(10**39)}) == {"p": "1" + "0" * 39}
    wrong = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 10}
    schema = {"type": "record", "name": "R", "fields": [{"name": "p", "type": wrong}]}
    formats = values_of("avro", None, SchemaFile(json.dumps(schema).encode()))
    assert formats.first_schema(raw_of([b"\x02a"])).field("p").type == BYTES.field("value").type


def test_a_value_nested_in_itself_without_an_end_does_not_end_the_process() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    formats = values_of("avro", None, SchemaFile(json.dumps(schema).encode()))
    raw = raw_of([b"\x02" * 1_000_000 + b"\x00", b"\x02\x00"])
    found = sort(formats, raw, formats.first_schema(raw))
    assert found.rows["_offset"].to_pylist() == [1]
    assert found.rows["next"].to_pylist() == ['{"next":null}']


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "9" * 310 + ".5", "9" * 250 + "e99", "[1e999]", '{"b":1e0000400}']
)
def test_a_number_beyond_a_double_is_a_dead_letter(number: str) -> None:
    _, reason = document_of(b'{"id": 1, "amount": %s}' % number.encode())
    assert reason is not None
    assert "is beyond a double" in reason
    assert document_of(b'{"amount": 1e308, "small": 1e-400}') == ({"amount": 1e308, "small": 0.0}, None)


def test_documents_nested_deeper_than_others_follow_are_dead_letters() -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert document_of(nested(200))[1] is None
    assert document_of(nested(201))[1] == "not JSON: nested more than 200 deep"


@pytest.mark.parametrize("kind", FORMATS)
def test_a_row_that_a_library_fails_over_is_a_dead_letter_and_the_others_are_rows(tmp_path: Path, kind: str) -> None:
    target = target_in(tmp_path, kind)
    formats = values_of("json", None, rule=target.rule)
    texts = ["plain", "x" * 15 + "\ud7ff" + "y", "z" * 15 + "\ud7ff" + "y", "plain too"]  # PyIceberg makes half a pair
    raw = raw_of([json.dumps({"s": text}).encode() for text in texts])
    schema = formats.first_schema(raw)
    table = target.create(schema, Origin("flights", (ID,), "append", "json"))
    left = without_refused(sort(formats, raw, schema), raw, table)
    if kind == "delta":
        assert left is None
        return
    assert left is not None
    assert left.rows["s"].to_pylist() == ["plain", "plain too"]
    assert left.dead["_offset"].to_pylist() == [1, 2]
    assert all("surrogates not allowed" in reason for reason in left.dead["_reason"].to_pylist())


def test_an_error_of_a_library_is_one_line_of_bounded_length() -> None:
    assert one_line(ValueError(" a\n  b\t\udce9 ")) == "a b \\udce9"
    assert one_line(KeyError()) == "KeyError"
    assert one_line(ValueError("x" * 401)) == "x" * 400
