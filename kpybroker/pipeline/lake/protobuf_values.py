"""Values in Protobuf: the columns of a message and the cells of a record."""

import json
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, json_format, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from kpybroker.client.schemas.protobuf import Message, NotDescriptors, ProtobufFile, message_at, message_path, pool_of
from kpybroker.client.schemas.registry import FIVE_BYTES, PROTOBUF, Registry, schema_id
from kpybroker.machines.lake.naming import NamingRule
from kpybroker.machines.lake.texts import text_of
from kpybroker.machines.schemas.errors import Unknown, one_line
from kpybroker.pipeline.lake.by_schema import JSON_TEXT, ColumnKind, Read, SchemaPosition, bounded, same, structure
from kpybroker.pipeline.lake.errors import LakeError

UNSIGNED_64: Final = pa.decimal128(20)
MICROSECONDS: Final = 1_000_000
FIRST_S: Final = -62_135_596_800
LAST_S: Final = 253_402_300_799
"""The seconds of timestamps from the year 1 to the year 9999, as the type itself has them."""
MOST_FIELDS: Final = 10_000
"""The most fields of a message and of those within: types that have one another twice have more."""

_BYTES, _ENUM, _MESSAGE, _GROUP = 12, 14, 11, 10
_SCALARS: Final[dict[int, pa.DataType]] = {
    1: pa.float64(),
    2: pa.float64(),
    3: pa.int64(),
    4: UNSIGNED_64,
    5: pa.int64(),
    6: UNSIGNED_64,
    7: pa.int64(),
    8: pa.bool_(),
    9: pa.string(),
    _BYTES: pa.binary(),
    13: pa.int64(),
    _ENUM: pa.string(),
    15: pa.int64(),
    16: pa.int64(),
    17: pa.int64(),
    18: pa.int64(),
}
"""By the numbers of types in descriptor.proto. Each column holds every value of its type."""
_TEXTS: Final = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(f"google.protobuf.{name}" for name in wrappers_pb2.DESCRIPTOR.message_types_by_name)


class MessageForm:
    """A message: each field is a column. Numbers are longs and doubles, enumerations the names of their values."""

    def __init__(self, name: str, pool: DescriptorPool, message: str, rule: NamingRule) -> None:
        """Unknown if there is no such message, or none that has columns."""
        found = Message(name, pool, message)
        self.name = found.name
        self._read = found.read
        try:
            fields = _Kinds(pool, rule).of_fields(found.descriptor, ())
        except (RecursionError, _TooMany):
            raise Unknown(f"{self.name} has more than {MOST_FIELDS} fields, or is nested too deep") from None
        self.schema = pa.schema([pa.field(name, kind.type) for name, kind in fields.items()])
        self._cells = [_cell(found.descriptor.fields_by_name[name], kind) for name, kind in fields.items()]

    def cells(self, content: bytes) -> list[Any]:
        message = self._read(content)
        return [cell(message) for cell in self._cells]


def _cell(field: Any, kind: ColumnKind) -> Read:
    """How a field is read from its message: null if it can be absent and is."""
    name, read = field.name, kind.read
    if field.is_repeated or not field.has_presence:
        return lambda message: read(getattr(message, name))
    return lambda message: read(getattr(message, name)) if message.HasField(name) else None


class _TooMany(Exception):
    """A message has too many fields."""


class _Kinds:
    """The kinds of the fields of one message, and of those within it."""

    def __init__(self, pool: DescriptorPool, rule: NamingRule) -> None:
        self._pool = pool
        self._rule = rule
        self._left = MOST_FIELDS

    def of_fields(self, descriptor: Any, within: tuple[str, ...]) -> dict[str, ColumnKind]:
        """The kinds of a message's fields; ``within`` has the names of the messages around it. _TooMany."""
        self._left -= len(descriptor.fields)
        if self._left < 0:
            raise _TooMany
        return {field.name: self._of(field, (*within, descriptor.full_name)) for field in descriptor.fields}

    def _of(self, field: Any, within: tuple[str, ...]) -> ColumnKind:
        if field.is_repeated:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                read = self._map_value(field.message_type.fields_by_name["value"])
                return ColumnKind(JSON_TEXT, lambda found: text_of({_name(key): read(found[key]) for key in found}))
            each = self._one(field, within)
            of_each = each.read
            return bounded(
                ColumnKind(pa.list_(each.type), lambda found: [of_each(value) for value in found]),
                lambda found: text_of([self._json(value) for value in found]),
            )
        return self._one(field, within)

    def _map_value(self, field: Any) -> Read:
        if field.message_type is not None:
            return self._json
        return self._one(field, ()).read

    def _one(self, field: Any, within: tuple[str, ...]) -> ColumnKind:
        if field.type in (_MESSAGE, _GROUP):
            return self._message(field.message_type, within)
        if field.type == _ENUM:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return ColumnKind(pa.string(), lambda number: names.get(number, str(number)))
        return ColumnKind(_SCALARS[field.type], _unicode if field.type == 9 else same)

    def _message(self, descriptor: Any, within: tuple[str, ...]) -> ColumnKind:
        name = descriptor.full_name
        if name == _TIMESTAMP:
            return ColumnKind(pa.timestamp("us", "UTC"), _microseconds)
        if name in _WRAPPERS:
            kind = self._one(descriptor.fields_by_name["value"], within)
            return ColumnKind(kind.type, lambda message: kind.read(message.value))
        if name in _TEXTS or name in within or not descriptor.fields:
            return ColumnKind(JSON_TEXT, self._text)
        fields = self.of_fields(descriptor, within)
        names, struct = structure(fields, self._rule)
        cells = [
            (named, _cell(field, kind))
            for named, field, kind in zip(names, descriptor.fields, fields.values(), strict=True)
        ]
        return bounded(ColumnKind(struct, lambda message: {name: cell(message) for name, cell in cells}), self._text)

    def _text(self, message: Any) -> str:
        return text_of(self._json(message))

    def _json(self, value: Any) -> Any:
        if not hasattr(value, "DESCRIPTOR"):
            return value
        return json_format.MessageToDict(value, preserving_proto_field_name=True, descriptor_pool=self._pool)


def _unicode(value: str | bytes) -> str:
    """A string; the library gives bytes for one of proto2 that is not UTF-8."""
    return value if isinstance(value, str) else value.decode()


def _microseconds(timestamp: Any) -> int:
    if not FIRST_S <= timestamp.seconds <= LAST_S:
        raise ValueError(f"the timestamp of {timestamp.seconds} s lies outside the years 1 to 9999")
    found: int = timestamp.seconds * MICROSECONDS + timestamp.nanos // 1_000
    return found


def _name(key: Any) -> str:
    return json.dumps(key) if isinstance(key, bool) else str(key)


class RegisteredProtobuf:
    """Protobuf with Confluent's five bytes and the path of the message."""

    def __init__(self, registry: Registry, rule: NamingRule) -> None:
        self._registry = registry
        self._rule = rule
        self._files: dict[int, ProtobufFile] = {}

    def spot(self, value: bytes) -> SchemaPosition:
        number = schema_id(value)
        path, start = message_path(value, FIVE_BYTES)
        return SchemaPosition((number, path), start)

    def form(self, key: Any) -> MessageForm:
        number, path = key
        if number not in self._files:
            self._files[number] = self._file(number)
        file = self._files[number]
        return MessageForm(file.name, file.pool, file.message_at(path), self._rule)

    def _file(self, number: int) -> ProtobufFile:
        schema = self._registry.schema(number, PROTOBUF)
        try:
            return ProtobufFile(f"schema {number}", schema)
        except NotDescriptors as error:
            line = f"schema registry {self._registry.address} {error}; --schema takes a file of them"
            raise LakeError(line) from None


class LocalProtobuf:
    """Protobuf of one message, which a file of descriptors has, with nothing before it."""

    def __init__(self, content: bytes, message: str | None, rule: NamingRule) -> None:
        """The file is of ``protoc --descriptor_set_out=FILE --include_imports``. LakeError."""
        found = descriptor_pb2.FileDescriptorSet()
        try:
            found.ParseFromString(content)
        except Exception as error:
            raise LakeError(f"not a file of protoc --descriptor_set_out: {one_line(error)}") from None
        if not found.file:
            raise LakeError("the file of --schema has no descriptors; protoc --descriptor_set_out writes them")
        if message is None:
            messages = [message_at(found.file[-1], (n,), "") for n in range(len(found.file[-1].message_type))]
            if len(messages) != 1:
                raise LakeError(f"--message names one of {', '.join(messages) or 'no messages'}")
            (message,) = messages
        try:
            pool = pool_of({file.name: file for file in found.file}, "the file")
            self._form = MessageForm("the file", pool, message, rule)
        except Unknown as error:
            raise LakeError(one_line(error)) from None

    def spot(self, value: bytes) -> SchemaPosition:  # noqa: ARG002
        return SchemaPosition(None, 0)

    def form(self, key: Any) -> MessageForm:  # noqa: ARG002
        return self._form
