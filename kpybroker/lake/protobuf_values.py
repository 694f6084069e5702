"""Values in Protobuf: the columns of a message and the cells of a record."""

import base64
import json
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa
from google.protobuf import descriptor_pb2, json_format, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from kpybroker.lake.by_schema import Spot
from kpybroker.lake.errors import LakeError
from kpybroker.schemas.errors import Unknown, one_line
from kpybroker.schemas.protobuf import Message, NotDescriptors, ProtobufFile, message_at, message_path, pool_of
from kpybroker.schemas.registry import FIVE_BYTES, PROTOBUF, Registry, schema_id

JSON_TEXT: Final = pa.string()
"""The type of maps, of messages without fields, of messages in themselves, and of ``google.protobuf.Struct``."""
UNSIGNED_64: Final = pa.decimal128(20)
MICROSECONDS: Final = 1_000_000

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

Read = Callable[[Any], Any]


class Kind(NamedTuple):
    """The type of a column, and how one value of a field becomes a cell."""

    type: pa.DataType
    read: Read


class MessageForm:
    """A message: each field is a column. Numbers are longs and doubles, enumerations the names of their values."""

    def __init__(self, name: str, pool: DescriptorPool, message: str) -> None:
        """Unknown if there is no such message."""
        found = Message(name, pool, message)
        self.name = found.name
        self._read = found.read
        fields = [(field, _kind(field, (found.descriptor.full_name,))) for field in found.descriptor.fields]
        self.schema = pa.schema([pa.field(field.name, kind.type) for field, kind in fields])
        self._cells = [_cell(field, kind) for field, kind in fields]

    def cells(self, content: bytes) -> list[Any]:
        message = self._read(content)
        return [cell(message) for cell in self._cells]


def _cell(field: Any, kind: Kind) -> Read:
    """How a field is read from its message: null if it can be absent and is."""
    name, read = field.name, kind.read
    if field.is_repeated or not field.has_presence:
        return lambda message: read(getattr(message, name))
    return lambda message: read(getattr(message, name)) if message.HasField(name) else None


def _kind(field: Any, within: tuple[str, ...]) -> Kind:
    """The kind of a field; ``within`` has the names of the messages around it."""
    if field.is_repeated:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return Kind(JSON_TEXT, lambda found: _text({_name(key): _json(found[key]) for key in found}))
        each = _one(field, within)
        return Kind(pa.list_(each.type), lambda found: [each.read(value) for value in found])
    return _one(field, within)


def _one(field: Any, within: tuple[str, ...]) -> Kind:
    if field.type in (_MESSAGE, _GROUP):
        return _of_message(field.message_type, within)
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return Kind(pa.string(), lambda number: names.get(number, str(number)))
    return Kind(_SCALARS[field.type], _unicode if field.type == 9 else _same)


def _of_message(descriptor: Any, within: tuple[str, ...]) -> Kind:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return Kind(pa.timestamp("us", "UTC"), _microseconds)
    if name in _WRAPPERS:
        kind = _one(descriptor.fields_by_name["value"], within)
        return Kind(kind.type, lambda message: kind.read(message.value))
    if name in _TEXTS or name in within or not descriptor.fields:
        return Kind(JSON_TEXT, lambda message: _text(_json(message)))
    fields = [(field, _kind(field, (*within, name))) for field in descriptor.fields]
    cells = [(field.name, _cell(field, kind)) for field, kind in fields]
    struct = pa.struct([pa.field(field.name, kind.type) for field, kind in fields])
    return Kind(struct, lambda message: {name: cell(message) for name, cell in cells})


def _same(value: Any) -> Any:
    return value


def _unicode(value: str | bytes) -> str:
    """A string; the library gives bytes for one of proto2 that is not UTF-8."""
    return value if isinstance(value, str) else value.decode()


def _microseconds(timestamp: Any) -> int:
    found: int = timestamp.seconds * MICROSECONDS + timestamp.nanos // 1_000
    return found


def _name(key: Any) -> str:
    return json.dumps(key) if isinstance(key, bool) else str(key)


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if hasattr(value, "DESCRIPTOR"):
        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    return value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class RegisteredProtobuf:
    """Protobuf with Confluent's five bytes and the path of the message."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._files: dict[int, ProtobufFile] = {}

    def spot(self, value: bytes) -> Spot:
        number = schema_id(value)
        path, start = message_path(value, FIVE_BYTES)
        return Spot((number, path), start)

    def form(self, key: Any) -> MessageForm:
        number, path = key
        if number not in self._files:
            self._files[number] = self._file(number)
        file = self._files[number]
        return MessageForm(file.name, file.pool, file.message_at(path))

    def _file(self, number: int) -> ProtobufFile:
        schema = self._registry.schema(number, PROTOBUF)
        try:
            return ProtobufFile(f"schema {number}", schema)
        except NotDescriptors as error:
            line = f"schema registry {self._registry.address} {error}; --schema takes a file of them"
            raise LakeError(line) from None


class LocalProtobuf:
    """Protobuf of one message, which a file of descriptors has, with nothing before it."""

    def __init__(self, content: bytes, message: str | None) -> None:
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
            self._form = MessageForm("the file", pool_of({file.name: file for file in found.file}, "the file"), message)
        except Unknown as error:
            raise LakeError(one_line(error)) from None

    def spot(self, value: bytes) -> Spot:  # noqa: ARG002
        return Spot(None, 0)

    def form(self, key: Any) -> MessageForm:  # noqa: ARG002
        return self._form
