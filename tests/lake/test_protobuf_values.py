"""Protobuf by a registry or a file of descriptors: columns of each message, and reasons for what does not fit."""

import base64
import json
import urllib.error
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hostile
from kpybroker.client.schemas.protobuf import message_path
from kpybroker.client.schemas.registry import Registry
from kpybroker.machines.lake.naming import with_digits
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.formats import SchemaFile, values_of
from kpybroker.pipeline.lake.tables import BYTES, OFFSET

KINDS = {
    "double": 1,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "message": 11,
    "bytes": 12,
    "enum": 14,
}


def field(message: Any, number: int, name: str, kind: str, of: str = "", *, repeated: bool = False) -> Any:
    made = message.field.add(name=name, number=number, type=KINDS[kind], label=3 if repeated else 1)
    if of:
        made.type_name = of
    return made


def place_file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="place.proto", package="air", syntax="proto3")
    field(file.message_type.add(name="Place"), 1, "code", "string")
    return file


def flight_file() -> Any:
    """``message Notice {}`` and ``message Flight { ... message Crew {string name = 1;} }``."""
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="air", syntax="proto3")
    file.dependency.extend(
        ["air/place.proto", "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", "confluent/meta.proto"]
    )
    kinds = file.enum_type.add(name="Kind")
    for number, name in enumerate(("UNKNOWN", "CARGO")):
        kinds.value.add(name=name, number=number)
    field(file.message_type.add(name="Notice"), 1, "text", "string")
    flight = file.message_type.add(name="Flight")
    field(flight, 1, "number", "int32")
    field(flight, 2, "seats", "uint64")
    field(flight, 3, "gate", "string").proto3_optional = True
    flight.field[-1].oneof_index = 0
    flight.oneof_decl.add(name="_gate")
    field(flight, 4, "kind", "enum", ".air.Kind")
    field(flight, 5, "stops", "string", repeated=True)
    field(flight, 6, "to", "message", ".air.Place")
    field(flight, 7, "at", "message", ".google.protobuf.Timestamp")
    field(flight, 8, "delay", "message", ".google.protobuf.Int64Value")
    field(flight, 9, "next", "message", ".air.Flight")
    field(flight, 10, "tags", "message", ".air.Flight.TagsEntry", repeated=True)
    entry = flight.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    field(entry, 1, "key", "string")
    field(entry, 2, "value", "bytes")
    field(flight.nested_type.add(name="Crew"), 1, "name", "string")
    return file


def classes() -> dict[str, Any]:
    """The classes of the messages, with which the test writes."""
    place = place_file()
    place.name = "air/place.proto"
    pool = DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        shipped = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(shipped)
        pool.Add(shipped)
    for file in (descriptor_pb2.FileDescriptorProto(name="confluent/meta.proto"), place, flight_file()):
        pool.Add(file)
    names = ("Flight", "Notice", "Flight.Crew")
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"air.{name}")) for name in names}


CLASSES = classes()


def encoded(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def load(url: str) -> bytes:
    assert url.endswith("?format=serialized")
    match url.removeprefix("http://registry/").removesuffix("?format=serialized"):
        case "schemas/ids/1":
            references = [{"name": "air/place.proto", "subject": "place", "version": 2}]
            answer = {"schemaType": "PROTOBUF", "schema": encoded(flight_file()), "references": references}
        case "subjects/place/versions/2":
            answer = {"schemaType": "PROTOBUF", "schema": encoded(place_file()), "version": 2}
        case "schemas/ids/2":
            answer = {"schema": '{"type": "string"}'}
        case "schemas/ids/3":
            file = descriptor_pb2.FileDescriptorProto(name="x", dependency=["nowhere.proto"])
            answer = {"schemaType": "PROTOBUF", "schema": encoded(file)}
        case "schemas/ids/4":
            answer = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message A {}'}
        case _:
            raise urllib.error.HTTPError(url, 404, "Not Found", {}, None)  # type: ignore[arg-type]
    return json.dumps(answer).encode()


def registered() -> Any:
    return values_of("protobuf", Registry("http://registry", load))


def prefixed(number: int, message: Any, path: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + path + message.SerializeToString()


def flight(**fields: Any) -> Any:
    found = CLASSES["Flight"](number=7, seats=(1 << 64) - 1, kind=1, stops=["EWR", "ORD"], **fields)
    found.to.code = "JFK"
    found.at.seconds, found.at.nanos = 1_357_000_000, 5_999
    found.delay.value = 0
    found.next.number = 8
    found.tags["a"] = b"\xff"
    return found


FLIGHT_PATH = b"\x02\x02"  # one index: 1


def raw_of(content: list[bytes]) -> pa.Table:
    count = len(content)
    return pa.table(
        [["id"] * count, [0] * count, list(range(count)), [0] * count, [None] * count, content], schema=BYTES
    )


def test_messages_become_columns() -> None:
    values = registered()
    raw = raw_of([prefixed(1, flight(gate=""), FLIGHT_PATH), prefixed(1, CLASSES["Flight"](kind=9), FLIGHT_PATH)])
    first = values.first_schema(raw)
    found = values.columns(raw, first)
    assert not found.dead.num_rows
    one, two = (dict(list(row.items())[5:]) for row in found.rows.to_pylist())
    assert one.pop("at").timestamp() == 1_357_000_000.000005
    assert one == {
        "number": 7,
        "seats": Decimal((1 << 64) - 1),
        "gate": "",
        "kind": "CARGO",
        "stops": ["EWR", "ORD"],
        "to": {"code": "JFK"},
        "delay": 0,
        "next": '{"number":8}',
        "tags": '{"a":"/w=="}',
    }
    absent = {"gate": None, "to": None, "at": None, "delay": None, "next": None}
    assert two == {"number": 0, "seats": Decimal(0), "kind": "9", "stops": [], "tags": "{}", **absent}


def hostile_message(**fields: Any) -> tuple[Any, Any]:
    """The format of a message with fields of every kind, and one of it."""
    files = descriptor_pb2.FileDescriptorSet.FromString(hostile.protobuf_files())
    pool = DescriptorPool()
    for each in files.file:
        pool.Add(each)
    made = GetMessageClass(pool.FindMessageTypeByName("h.Outer"))(**fields)
    return values_of("protobuf", None, SchemaFile(files.SerializeToString(), "h.Outer")), made


def test_fields_alike_but_for_case_or_like_columns_of_the_lake_have_columns_of_their_own() -> None:
    values, message = hostile_message(a="x", A=7, _offset=8, _OFFSET=b"y", x__str="z")
    found = values.columns(raw_of([message.SerializeToString()]), values.first_schema(raw_of([b""])))
    row = found.rows.to_pylist()[0]
    assert [row["a"], row["x__str"], row["_offset"]] == ["x", "z", 0]
    assert [row[with_digits(name)] for name in ("A", "_offset", "_OFFSET")] == [7, 8, b"y"]


def test_maps_are_json_that_every_parser_reads() -> None:
    values, message = hostile_message()
    message.m["a"], message.m["b"] = float("nan"), float("-inf")
    message.n[True] = b"\xff"
    message.o[-5].a = "inner"
    message.p["k"] = 1
    message.q["large"] = -(1 << 63)
    message.r["any"].Pack(timestamp_pb2.Timestamp(seconds=1))
    found = values.columns(raw_of([message.SerializeToString()]), values.first_schema(raw_of([b""])))
    row = found.rows.to_pylist()[0]
    assert {name: json.loads(row[name], parse_constant=pytest.fail) for name in "mnopqr"} == {
        "m": {"a": "NaN", "b": "-Infinity"},
        "n": {"true": "/w=="},
        "o": {"-5": {"a": "inner"}},
        "p": {"k": "ONE"},
        "q": {"large": -(1 << 63)},
        "r": {"any": {"@type": "type.googleapis.com/google.protobuf.Timestamp", "value": "1970-01-01T00:00:01Z"}},
    }


@pytest.mark.parametrize("seconds", [253_402_300_800, -62_135_596_801, (1 << 63) - 1, -(1 << 63)])
def test_a_timestamp_that_its_type_does_not_allow_is_a_dead_letter(seconds: int) -> None:
    values, message = hostile_message()
    message.timestamp.seconds = seconds
    found = values.columns(raw_of([message.SerializeToString()]), values.first_schema(raw_of([b""])))
    assert "lies outside the years 1 to 9999" in found.dead["_reason"][0].as_py()


def test_messages_that_double_at_each_level_make_dead_letters() -> None:
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="bomb.proto", package="b", syntax="proto3")
    field(file.message_type.add(name="M0"), 1, "x", "string")
    for level in range(1, 40):
        made = file.message_type.add(name=f"M{level}")
        for number, name in enumerate("lr", 1):
            field(made, number, name, "message", f".b.M{level - 1}")
    with pytest.raises(LakeError, match="more than 10000 fields"):
        values_of("protobuf", None, SchemaFile(found.SerializeToString(), "b.M39"))
    deep = values_of("protobuf", None, SchemaFile(found.SerializeToString(), "b.M5"))
    assert deep.first_schema(raw_of([b""])).names[-2:] == ["l", "r"]


def test_message_indexes_behind_the_schema_id_choose_the_protobuf_message() -> None:
    values = registered()
    notice = prefixed(1, CLASSES["Notice"](text="late"), b"\0")
    crew = prefixed(1, CLASSES["Flight.Crew"](name="Ann"), b"\x04\x02\x02")
    raw = raw_of([notice, crew])
    found = values.columns(raw, values.first_schema(raw))
    rows = sorted(found.rows.to_pylist(), key=lambda row: row[OFFSET])
    assert [(row["text"], row["name"]) for row in rows] == [("late", None), (None, "Ann")]


def test_values_that_do_not_fit_say_why() -> None:
    values = registered()
    good = prefixed(1, flight(), FLIGHT_PATH)
    column = pa.schema([*BYTES.remove(5), pa.field("number", pa.string())])
    content = {
        b"{}": "no schema id: the value does not begin with Confluent's five bytes",
        b"\0\0\0\0\x09\0": "schema 9 is not in the registry",
        b"\0\0\0\0\x02\0": "schema 2 is AVRO, not PROTOBUF",
        b"\0\0\0\0\x03\0": "schema 3 imports nowhere.proto, which is neither a reference nor a file of",
        b"\0\0\0\0\x01": "no Protobuf of a registry: the message indexes are cut off",
        b"\0\0\0\0\x01\x01": "no Protobuf of a registry: -1 message indexes",
        b"\0\0\0\0\x01\x02\x0e": "schema 1 has no message at 7",
        good[:-1]: "not of schema 1, air.Flight: ",
        good[:7] + b"\x2a\x01\xff": "not of schema 1, air.Flight: ",
    }
    found = values.columns(raw_of([*content, good]), values.first_schema(raw_of([good])))
    assert found.rows[OFFSET].to_pylist() == [len(content)]
    reasons = dict(zip(found.dead[OFFSET].to_pylist(), found.dead["_reason"].to_pylist(), strict=True))
    for number, words in enumerate(content.values()):
        assert reasons[number].startswith(words), reasons[number]
    assert "and the column is string" in values.columns(raw_of([good]), column).dead["_reason"][0].as_py()


def test_a_registry_that_gives_text_stops_the_writer() -> None:
    with pytest.raises(LakeError, match="does not give Protobuf as descriptors"):
        registered().columns(raw_of([b"\0\0\0\0\x04\0"]), BYTES)


@given(st.lists(st.binary(max_size=80), max_size=5), st.booleans())
@example([bytes.fromhex("2a0180"), b"\x12" * 70], True)
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_row_or_a_dead_letter(tails: list[bytes], is_prefixed: bool) -> None:
    values = registered()
    content = [b"\0\0\0\0\x01" + FLIGHT_PATH + tail if is_prefixed else tail for tail in tails]
    found = values.columns(raw_of(content), values.first_schema(raw_of([prefixed(1, flight(), FLIGHT_PATH)])))
    assert sorted(found.rows[OFFSET].to_pylist() + found.dead[OFFSET].to_pylist()) == list(range(len(content)))


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=8).map(tuple))
def test_a_path_is_read_as_it_was_written(path: tuple[int, ...]) -> None:
    def varint(number: int) -> bytes:
        number, out = number << 1, b""
        while number > 127:
            out, number = out + bytes([number & 127 | 128]), number >> 7
        return out + bytes([number])

    written = varint(len(path)) + b"".join(map(varint, path))
    assert message_path(b"12345" + written + b"rest", 5) == (path, 5 + len(written))


def test_a_file_of_descriptors_takes_messages_without_a_prefix() -> None:
    place = place_file()
    place.name = "air/place.proto"
    content = descriptor_pb2.FileDescriptorSet(file=[place, flight_file()]).SerializeToString()
    values = values_of("protobuf", None, SchemaFile(content, "air.Flight"))
    raw = raw_of([flight().SerializeToString(), b"\x08"])
    found = values.columns(raw, values.first_schema(raw))
    assert found.rows["number"].to_pylist() == [7]
    assert found.dead["_reason"].to_pylist()[0].startswith("not of the file, air.Flight: ")
    with pytest.raises(LakeError, match=r"--message names one of air\.Notice, air\.Flight"):
        values_of("protobuf", None, SchemaFile(content))
    with pytest.raises(LakeError, match=r"the file has no message Flight"):
        values_of("protobuf", None, SchemaFile(content, "Flight"))
    alone = descriptor_pb2.FileDescriptorSet(file=[place]).SerializeToString()
    assert values_of("protobuf", None, SchemaFile(alone)).first_schema(raw).names[-1] == "code"
    for wrong, words in ((b'syntax = "proto3";', "not a file of protoc"), (b"", "has no descriptors")):
        with pytest.raises(LakeError, match=words):
            values_of("protobuf", None, SchemaFile(wrong))
