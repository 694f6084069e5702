"""Avro by a registry: columns of each schema, and reasons for what does not fit."""

import io
import json
import urllib.error
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.client.schemas.registry import MOST_REFERENCES, Registry
from kpybroker.machines.schemas.errors import SchemaError
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.formats import SchemaFile, values_of
from kpybroker.pipeline.lake.tables import BYTES, FACTS, OFFSET

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "plane", "type": {"type": "record", "name": "Plane", "fields": [{"name": "seats", "type": "int"}]}},
        {"name": "spare", "type": ["null", "Plane"]},
        {"name": "either", "type": ["int", "string"]},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
    ],
}
WIDER = {**FLIGHT, "fields": [*FLIGHT["fields"], {"name": "gate", "type": "string"}]}
OTHER = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "long"}]}
SCHEMAS: dict[int, Any] = {1: FLIGHT, 2: WIDER, 3: OTHER}
ONE = {
    "carrier": "UA",
    "delay": None,
    "at": datetime(2013, 1, 1, tzinfo=UTC),
    "price": Decimal("12.50"),
    "stops": ["EWR"],
    "plane": {"seats": 9},
    "spare": None,
    "either": "x",
    "tags": {"a": 1},
}


def load(url: str) -> bytes:
    number = int(url.rpartition("/")[2])
    if number == 8:
        return json.dumps({"schemaType": "PROTOBUF", "schema": "message A {}"}).encode()
    if number not in SCHEMAS:
        raise urllib.error.HTTPError(url, 404, "Not Found", {}, None)  # type: ignore[arg-type]
    return json.dumps({"schema": json.dumps(SCHEMAS[number])}).encode()


def encoded(number: int, document: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMAS[number]), document)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def raw_of(content: list[bytes]) -> pa.Table:
    count = len(content)
    return pa.table(
        [["id"] * count, [0] * count, list(range(count)), [0] * count, [None] * count, content], schema=BYTES
    )


def test_records_become_columns_and_later_schemas_add_theirs() -> None:
    avro = values_of("avro", Registry("http://registry", load))
    first = avro.first_schema(raw_of([encoded(1, ONE)]))
    assert first.field("at").type == pa.timestamp("us", "UTC")
    found = avro.columns(raw_of([encoded(2, {**ONE, "gate": "7"}), encoded(1, ONE)]), first)
    rows = sorted(found.rows.to_pylist(), key=lambda row: row[OFFSET])
    assert [row["gate"] for row in rows] == ["7", None]
    row = {name: value for name, value in rows[1].items() if name not in FACTS.names and name != "gate"}
    assert row == {**ONE, "tags": '{"a":1}'}
    assert not found.dead.num_rows


def test_values_that_do_not_fit_say_why() -> None:
    avro = values_of("avro", Registry("http://registry", load))
    good = encoded(1, ONE)
    first = avro.first_schema(raw_of([good]))
    content = [b"{}", b"\0\0\0\0\x09x", b"\0\0\0\0\x08x", encoded(3, {"carrier": 1}), good[:-3], good + b"x", good]
    found = avro.columns(raw_of(content), first)
    assert found.rows[OFFSET].to_pylist() == [6]
    reasons = dict(zip(found.dead[OFFSET].to_pylist(), found.dead["_reason"].to_pylist(), strict=True))
    assert reasons[0] == "no schema id: the value does not begin with Confluent's five bytes"
    assert reasons[1] == "schema 9 is not in the registry"
    assert reasons[2] == "schema 8 is PROTOBUF, not AVRO"
    assert reasons[3] == "schema 3: field carrier is int64, and the column is string"
    assert reasons[4].startswith("not of schema 1: ")
    assert reasons[5] == "not of schema 1: 1 bytes are left behind the record"


@given(st.lists(st.binary(max_size=60).map(lambda tail: b"\0\0\0\0\x01" + tail), max_size=5))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_a_row_or_a_dead_letter(content: list[bytes]) -> None:
    avro = values_of("avro", Registry("http://registry", load))
    found = avro.columns(raw_of(content), avro.first_schema(raw_of([encoded(1, ONE)])))
    assert sorted(found.rows[OFFSET].to_pylist() + found.dead[OFFSET].to_pylist()) == list(range(len(content)))


def test_types_of_other_schemas_are_known_by_reference() -> None:
    def answer(url: str) -> bytes:
        if url.endswith("/subjects/a%2Fseat/versions/3"):
            seat = {"type": "record", "name": "Seat", "namespace": "air", "fields": [{"name": "row", "type": "int"}]}
            return json.dumps({"schema": json.dumps(seat), "version": 3}).encode()
        outer = {"type": "record", "name": "Trip", "fields": [{"name": "seat", "type": "air.Seat"}]}
        references = [{"name": "air.Seat", "subject": "a/seat", "version": 3}]
        return json.dumps({"schema": json.dumps(outer), "references": references}).encode()

    avro = values_of("avro", Registry("http://registry", answer))
    raw = raw_of([b"\0\0\0\0\1\x0e"])
    found = avro.columns(raw, avro.first_schema(raw))
    assert found.rows["seat"].to_pylist() == [{"row": 7}]


@pytest.mark.parametrize("count", [1, 2])
def test_references_without_end_make_a_dead_letter_after_a_bounded_number_of_requests(count: int) -> None:
    asked: list[str] = []
    references = [{"name": "a", "subject": "a", "version": 1}] * count

    def answer(url: str) -> bytes:
        asked.append(url)
        return json.dumps({"schema": "{}", "references": references}).encode()

    avro = values_of("avro", Registry("http://registry", answer))
    raw = raw_of([b"\0\0\0\0\x01x"] * 3)
    found = avro.columns(raw, avro.first_schema(raw))
    assert found.dead.num_rows == 3
    assert "references" in found.dead["_reason"][0].as_py()
    assert len(asked) <= MOST_REFERENCES


def test_a_reference_that_the_registry_does_not_have_makes_a_dead_letter() -> None:
    def answer(url: str) -> bytes:
        if "subjects" in url:
            raise urllib.error.HTTPError(url, 404, "Not Found", {}, None)  # type: ignore[arg-type]
        return json.dumps({"schema": "{}", "references": [{"name": "a", "subject": "a", "version": 1}]}).encode()

    avro = values_of("avro", Registry("http://registry", answer))
    raw = raw_of([b"\0\0\0\0\x01x"])
    found = avro.columns(raw, avro.first_schema(raw))
    assert found.dead["_reason"][0].as_py() == "schema 1 cannot be used: the registry does not have version 1 of a"


def test_a_schema_of_a_file_takes_records_without_a_prefix() -> None:
    avro = values_of("avro", None, SchemaFile(json.dumps(FLIGHT).encode()))
    raw = raw_of([encoded(1, ONE)[5:], b"\xff"])
    found = avro.columns(raw, avro.first_schema(raw))
    assert found.rows["carrier"].to_pylist() == ["UA"]
    assert found.dead[OFFSET].to_pylist() == [1]
    with pytest.raises(LakeError, match="the schema cannot be used"):
        values_of("avro", None, SchemaFile(b"<avro>"))


def test_a_registry_that_is_away_or_refuses_is_one_line_without_the_password() -> None:
    away = Registry("http://user:secret@127.0.0.1:9/")
    assert "secret" not in repr(away)
    with pytest.raises(SchemaError, match=r"^schema registry http://127.0.0.1:9 cannot be reached: ") as notified:
        away.schema(1, "AVRO")
    assert "secret" not in str(notified.value)

    def forbidden(url: str) -> bytes:
        raise urllib.error.HTTPError(url, 401, "Unauthorized", {}, None)  # type: ignore[arg-type]

    with pytest.raises(SchemaError, match="answers 401 Unauthorized"):
        Registry("http://registry", forbidden).schema(1, "AVRO")
    with pytest.raises(SchemaError, match="does not answer as one"):
        Registry("http://registry", lambda _: b"<html>").schema(1, "AVRO")


def test_formats_that_are_not_there_are_refused_by_name() -> None:
    for kind in ("avro", "protobuf", "json-schema"):
        with pytest.raises(LakeError, match="needs --schema-registry or --schema"):
            values_of(kind, None)
    file = SchemaFile(b"{}")
    with pytest.raises(LakeError, match="--schema is for"):
        values_of("json", None, file)
    with pytest.raises(LakeError, match="exclude each other"):
        values_of("avro", Registry("http://registry"), file)
    with pytest.raises(LakeError, match="--message is for"):
        values_of("avro", None, file._replace(message="a.B"))
    with pytest.raises(LakeError, match="no format 'xml'"):
        values_of("xml", None)
    with pytest.raises(SchemaError, match="takes a URL"):
        Registry("registry:8081")
