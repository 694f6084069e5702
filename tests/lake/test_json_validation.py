"""JSON Schema: documents that are not valid are dead letters, and declared fields are columns."""

import json
import urllib.error
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.client.schemas.registry import Registry
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.formats import SchemaFile, values_of
from kpybroker.pipeline.lake.tables import BYTES, OFFSET

FLIGHT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "number": {"type": "integer", "minimum": 1},
        "delay": {"type": "number"},
        "gate": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "kind": {"type": ["string", "null"]},
        "stops": {"type": "array", "items": {"type": "string"}},
        "to": {"$ref": "place.json"},
        "mixed": {"type": ["string", "integer"]},
    },
    "required": ["number"],
}
WIDER = {"type": "object", "properties": {"seats": {"type": "integer"}}}


def load(url: str) -> bytes:
    match url.removeprefix("http://registry/"):
        case "schemas/ids/1":
            references = [{"name": "place.json", "subject": "place", "version": 1}]
            answer: Any = {"schemaType": "JSON", "schema": json.dumps(FLIGHT), "references": references}
        case "subjects/place/versions/1":
            answer = {"schemaType": "JSON", "schema": '{"type": "object", "required": ["code"]}'}
        case "schemas/ids/2":
            answer = {"schemaType": "JSON", "schema": json.dumps(WIDER)}
        case "schemas/ids/3":
            answer = {"schemaType": "JSON", "schema": '{"$ref": "http://127.0.0.1:9/secret"}'}
        case "schemas/ids/4":
            answer = {"schemaType": "JSON", "schema": '{"type": 7}'}
        case _:
            raise urllib.error.HTTPError(url, 404, "Not Found", {}, None)  # type: ignore[arg-type]
    return json.dumps(answer).encode()


def registered() -> Any:
    return values_of("json-schema", Registry("http://registry", load))


def prefixed(number: int, document: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + json.dumps(document).encode()


def raw_of(content: list[bytes]) -> pa.Table:
    count = len(content)
    return pa.table(
        [["id"] * count, [0] * count, list(range(count)), [0] * count, [None] * count, content], schema=BYTES
    )


def test_declared_fields_are_columns_before_a_document_has_them() -> None:
    values = registered()
    raw = raw_of([prefixed(1, {"number": 1, "delay": 2, "free": True, "mixed": "x"})])
    first = values.first_schema(raw)
    types = {field.name: field.type for field in first if field.name not in BYTES.names}
    assert types == {
        "number": pa.int64(),
        "delay": pa.float64(),
        "gate": pa.string(),
        "kind": pa.string(),
        "stops": pa.string(),
        "mixed": pa.string(),
        "free": pa.bool_(),
    }
    later = values.columns(raw_of([prefixed(2, {}), prefixed(1, {"number": 2, "to": {"code": "JFK"}})]), first)
    assert not later.dead.num_rows
    assert later.rows["seats"].to_pylist() == [None, None]
    assert later.rows["to"].to_pylist() == [None, '{"code":"JFK"}']


def test_documents_that_are_not_valid_say_where() -> None:
    values = registered()
    good = prefixed(1, {"number": 1})
    content = {
        prefixed(1, {}): 'not valid by schema 1: the document: "number" is a required property',
        prefixed(1, {"number": 0}): "not valid by schema 1: number: 0 is less than the minimum of 1",
        prefixed(1, {"number": 1, "stops": ["a", 7]}): 'not valid by schema 1: stops[1]: 7 is not of type "string"',
        prefixed(1, {"number": 1, "to": {}}): 'not valid by schema 1: to: "code" is a required property',
        prefixed(9, {}): "schema 9 is not in the registry",
        prefixed(3, {}): "schema 3 cannot be used: ",
        prefixed(4, {}): "schema 4 cannot be used: ",
        b'{"number": 1}': "no schema id",
        b"\0\0\0\0\1{": "not JSON at character 1",
    }
    found = values.columns(raw_of([*content, good]), values.first_schema(raw_of([good])))
    assert found.rows[OFFSET].to_pylist() == [len(content)]
    for words, reason in zip(content.values(), found.dead["_reason"].to_pylist(), strict=True):
        assert reason.startswith(words), reason


def test_a_schema_of_a_file_takes_documents_without_a_prefix() -> None:
    values = values_of("json-schema", None, SchemaFile(json.dumps(WIDER).encode()))
    raw = raw_of([b'{"seats": 9}', b'{"seats": "many"}', prefixed(1, {})])
    found = values.columns(raw, values.first_schema(raw))
    assert found.rows["seats"].to_pylist() == [9]
    assert found.dead[OFFSET].to_pylist() == [1, 2]
    for wrong in (b"\xff", b"[", b'{"$ref": "other.json"}', b"[" * 100_000):
        with pytest.raises(LakeError, match=r"the schema cannot be used|utf-8"):
            values_of("json-schema", None, SchemaFile(wrong))


@given(st.lists(st.binary(max_size=30) | st.just(b'{"number": 3}'), max_size=6))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_row_or_a_dead_letter(tails: list[bytes]) -> None:
    values = registered()
    content = [b"\0\0\0\0\1" + tail for tail in tails]
    found = values.columns(raw_of(content), values.first_schema(raw_of(content)))
    assert sorted(found.rows[OFFSET].to_pylist() + found.dead[OFFSET].to_pylist()) == list(range(len(content)))
