"""Keys and values by the schemas of a registry: Avro, Protobuf, JSON Schema, and what is shown where that fails."""

import base64
import io
import json
import sys
import urllib.error
from collections.abc import Iterator
from time import time
from typing import Any

import fastavro
import pytest
from console_node import ConsoleNode, console_node
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from registry_server import RegistryServer, registry_server

from kpybroker.client.schemas.registry import Registry
from kpybroker.machines.schemas.errors import SchemaError
from kpybroker.monitoring.console import decoding
from kpybroker.monitoring.console.schema_tasks import (
    DecodedValue,
    DecodingEnded,
    RegistryAddress,
    SchemaDecoder,
    SchemaTask,
    SchemaTrouble,
)
from kpywire.messages.metadata import MetadataRequest
from kpywire.record import Record

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "photo", "type": "bytes"}],
}
NUMBERED = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
ENDLESS = {"type": "array", "items": "null"}


def descriptor() -> str:
    file = descriptor_pb2.FileDescriptorProto(name="seat.proto", package="air", syntax="proto3")
    file.message_type.add(name="Plane").field.add(name="seats", number=1, type=5, label=1)
    file.message_type.add(name="Seat").field.add(name="row", number=1, type=5, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


SCHEMAS: dict[str, Any] = {
    "/schemas/ids/1": {"schema": json.dumps(FLIGHT)},
    "/schemas/ids/2": {"schema": descriptor(), "schemaType": "PROTOBUF"},
    "/schemas/ids/2?format=serialized": {"schema": descriptor(), "schemaType": "PROTOBUF"},
    "/schemas/ids/3": {"schema": json.dumps(NUMBERED), "schemaType": "JSON"},
    "/schemas/ids/4": {"schema": json.dumps(ENDLESS)},
    "/schemas/ids/5": {"schema": "{}", "schemaType": "XML"},
}


def named(number: int, content: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + content


def avro(carrier: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(FLIGHT), {"carrier": carrier, "photo": b"\xff\0"})
    return named(1, out.getvalue())


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process takes its time on a busy machine."""
    monkeypatch.setattr(decoding, "PATIENCE_S", 60.0)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as made:
        made.schemas.update(SCHEMAS)
        yield made


def shown_by(registry: RegistryServer, **settings: str) -> Any:
    return console_node(kpybroker_console_schema_registry_url=registry.url, **settings)


def produce(node: ConsoleNode, *values: bytes | None, key: bytes | None = None) -> None:
    if "flights" not in node.node.image.topics:
        node.create("flights")
    node.produce("flights", [Record(timestamp=int(time() * 1000), key=key, value=value) for value in values])


def values_of(node: ConsoleNode, **query: object) -> list[dict[str, Any]]:
    page = node.get("/api/records", topic="flights", start="oldest", **query)
    assert page.status == 200, page.text
    return [each["value"] for each in page.json["records"]]


def test_keys_and_values_are_shown_by_their_schemas(registry: RegistryServer) -> None:
    with shown_by(registry) as node:
        produce(
            node,
            avro("U<A>"),
            named(2, b"\x02\x02\x08\x07"),
            named(2, b"\0\x08\x09"),
            named(3, b'{"number": 1.50}'),
            named(3, b'{"number": 4}'),
            key=avro("key"),
        )
        values = values_of(node)
        assert [each["form"] for each in values] == ["avro", "protobuf", "protobuf", "json schema", "json schema"]
        assert [each["schema_id"] for each in values] == [1, 2, 2, 3, 3]
        assert json.loads(values[0]["text"]) == {"carrier": "U<A>", "photo": "/wA="}
        assert (json.loads(values[1]["text"]), values[1]["note"]) == ({"row": 7}, "air.Seat")
        assert (json.loads(values[2]["text"]), values[2]["note"]) == ({"seats": 9}, "air.Plane")
        assert "1.50" in values[3]["text"], "numbers stay as they are written"
        assert values[3]["note"].startswith("not valid by schema 3: number: ")
        assert values[4]["note"] == ""
        assert base64.b64decode(values[0]["base64"]) == avro("U<A>")
        page = node.get("/records", topic="flights", start="oldest").text
        assert "avro, schema 1" in page
        assert "U&lt;A&gt;" in page
        assert (
            json.loads(node.get("/api/records", topic="flights").json["records"][0]["key"]["text"])["carrier"] == "key"
        )
        assert [each["form"] for each in values_of(node, form="hex")] == ["hex"] * 5
        found = node.post("/searches", topic="flights", text="U<A>").json["see"]
        assert node.get(f"/api{found}").status == 200


def test_each_schema_is_asked_for_once(registry: RegistryServer) -> None:
    with shown_by(registry) as node:
        produce(node, avro("a"), avro("b"))
        for _ in range(3):
            assert [each["form"] for each in values_of(node)] == ["avro", "avro"]
        assert registry.asked == ["/schemas/ids/1"]


def test_values_that_are_not_of_their_schema_are_bytes_with_the_reason(registry: RegistryServer) -> None:
    with shown_by(registry) as node:
        strangers = (named(2**32 - 1, b"x"), b"\0\0", b"text", b"", None)
        produce(node, avro("a")[:-1], named(9, b"x"), named(5, b"x"), named(3, b"\xff"), *strangers)
        values = values_of(node)
        assert [each["form"] for each in values] == [*["hex"] * 6, "text", "empty", "null"]
        assert values[0]["note"].startswith("not of schema 1: ")
        assert values[1]["note"] == "schema 9 is not in the registry"
        assert values[2]["note"] == "schema 5 is of a kind that is not read: XML"
        assert values[3]["note"].startswith("not of schema 3: ")
        assert [(each["schema_id"], each["note"]) for each in values[4:]] == [(None, "")] * 5


def test_a_slow_registry_holds_neither_the_page_nor_clients_and_is_left_alone(
    registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "PATIENCE_S", 0.5)
    monkeypatch.setattr(decoding, "PAUSE_MS", 600_000)
    registry.answers.clear()
    with shown_by(registry) as node, node.client as client:
        produce(node, avro("a"))
        page = node.get("/api/records", topic="flights").json
        assert [each["value"]["form"] for each in page["records"]] == ["hex"]
        (line,) = page["notes"]
        assert line.startswith(f"schema registry {registry.url} ")
        assert client.call(MetadataRequest(topics=[]), 12).controller_id == 1
        asked = len(registry.asked)
        assert node.get("/api/records", topic="flights").json["notes"] == [line]
        assert len(registry.asked) == asked, "not asked again at once"


def test_a_registry_that_is_away_is_one_line() -> None:
    with console_node(kpybroker_console_schema_registry_url="http://127.0.0.1:9") as node:
        produce(node, avro("a"))
        page = node.get("/api/records", topic="flights").json
        assert [each["value"]["form"] for each in page["records"]] == ["hex"]
        (line,) = page["notes"]
        assert line.startswith("schema registry http://127.0.0.1:9 cannot be reached")
        assert line in node.get("/records", topic="flights").text


def test_a_hostile_value_takes_no_more_than_the_patience_of_a_page(
    registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "PATIENCE_S", 1.0)
    with shown_by(registry) as node, node.client as client:
        produce(node, named(4, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"))
        page = node.get("/api/records", topic="flights").json
        assert [each["value"]["form"] for each in page["records"]] == ["hex"]
        assert page["notes"] or page["records"][0]["value"]["note"]
        assert client.call(MetadataRequest(topics=[]), 12).controller_id == 1


def test_the_login_goes_to_the_registry_and_nowhere_else(registry: RegistryServer) -> None:
    login = {"kpybroker.console.schema.registry.basic.auth.user.info": "ann:hunter2"}
    with shown_by(registry, **login) as node:
        produce(node, avro("a"))
        assert [each["form"] for each in values_of(node)] == ["avro"]
        assert registry.logins == ["Basic " + base64.b64encode(b"ann:hunter2").decode()]
    assert "hunter2" not in repr(RegistryAddress("http://registry", "ann:hunter2"))
    assert "hunter2" not in repr(Registry("http://registry", login="ann:hunter2"))


def test_a_registry_cannot_send_the_login_elsewhere(registry: RegistryServer) -> None:
    with registry_server() as stranger:
        registry.elsewhere = stranger.url
        with pytest.raises(SchemaError, match="answers 302"):
            Registry(registry.url, login="ann:hunter2").of_any_kind(1)
        assert stranger.logins == []
        stranger.schemas.update(SCHEMAS)
        assert Registry(registry.url).of_any_kind(1)[0] == "AVRO", "without a login there is nothing to lose"


def test_values_are_not_decoded_without_a_registry() -> None:
    with console_node() as node:
        produce(node, avro("a"))
        (value,) = values_of(node)
        assert (value["form"], value["schema_id"], value["note"]) == ("hex", None, "")


# The work itself


def load(url: str) -> bytes:
    found = SCHEMAS.get(url.removeprefix("http://registry"))
    if found is None:
        raise urllib.error.HTTPError(url, 404, "Not Found", {}, None)  # type: ignore[arg-type]
    return json.dumps(found).encode()


ADDRESS = RegistryAddress("http://registry")


def decoder() -> SchemaDecoder:
    return SchemaDecoder(lambda address: Registry(address.url, load))


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kpybroker.client.schemas.avro", raising=False)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    task = SchemaTask(ADDRESS, [avro("a"), avro("b"), named(3, b'{"number": 1}')])
    trouble, decoded, ended = decoder().work(task)
    assert isinstance(trouble, SchemaTrouble)
    assert trouble.line == "values of schema 1 need fastavro: pip install 'kpybroker[schemas]'"
    assert isinstance(decoded, DecodedValue)
    assert (decoded.place, decoded.content.form) == (2, "json schema")
    assert isinstance(ended, DecodingEnded)


def test_any_number_of_schema_ids_asks_the_registry_a_bounded_number_of_times() -> None:
    asked: list[str] = []

    def count(url: str) -> bytes:
        asked.append(url)
        return load(url)

    found = list(
        SchemaDecoder(lambda address: Registry(address.url, count)).work(
            SchemaTask(ADDRESS, [named(1000 + number, b"") for number in range(500)])
        )
    )
    assert len(asked) == 50
    assert len(found) == 51


@given(st.integers(1, 5).filter(lambda number: number != 4), st.binary(max_size=80))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_a_text_or_a_reason(number: int, content: bytes) -> None:
    decoded, ended = decoder().work(SchemaTask(ADDRESS, [named(number, content)]))
    assert isinstance(decoded, DecodedValue)
    assert decoded.content.text is not None or decoded.content.note
    assert isinstance(ended, DecodingEnded)
