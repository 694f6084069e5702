"""Values in Avro, by fastavro: the columns of a schema and the cells of a record."""

import json
from typing import Any, Final

import pyarrow as pa

from kpybroker.lake.by_schema import Spot
from kpybroker.lake.errors import LakeError
from kpybroker.schemas.avro import AvroSchema
from kpybroker.schemas.errors import Unknown, one_line
from kpybroker.schemas.registry import AVRO, FIVE_BYTES, Registry, schema_id

PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
LOGICAL: Final[dict[str, pa.DataType]] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "time-millis": pa.int64(),
    "time-micros": pa.int64(),
    "uuid": pa.string(),
}
JSON_TEXT: Final = pa.string()
"""The type of unions of several types, of maps and of records without fields: JSON in a string."""


class AvroForm:
    """A schema of records. An int is a long and a float a double; nested records are structs, lists are lists."""

    def __init__(self, schema: AvroSchema) -> None:
        """Unknown if the schema has no columns."""
        self.name = schema.name
        named: dict[str, Any] = {}
        try:
            for each in schema.referenced:
                arrow_type(each, named)
            if schema.parsed.get("type") != "record":
                raise Unknown(f"{self.name} is not of a record")
            fields = [pa.field(each["name"], arrow_type(each["type"], named)) for each in schema.parsed["fields"]]
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise Unknown(f"{self.name} cannot be used: {one_line(error)}") from None
        self._read = schema.read
        self.schema = pa.schema(fields)

    def cells(self, content: bytes) -> list[Any]:
        read = self._read(content)
        return [plain(read.get(field.name), field.type) for field in self.schema]


class RegisteredAvro:
    """Avro with Confluent's five bytes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def spot(self, value: bytes) -> Spot:
        return Spot(schema_id(value), FIVE_BYTES)

    def form(self, key: Any) -> AvroForm:
        found = self._registry.schema(key, AVRO)
        return AvroForm(AvroSchema(f"schema {key}", found.text, [each for _, each in found.references]))


class LocalAvro:
    """Avro of one schema, which a file has, with nothing before a record."""

    def __init__(self, text: bytes) -> None:
        """LakeError if the schema cannot be used."""
        try:
            self._form = AvroForm(AvroSchema("the schema", text.decode()))
        except (Unknown, UnicodeDecodeError) as error:
            raise LakeError(one_line(error)) from None

    def spot(self, value: bytes) -> Spot:  # noqa: ARG002
        return Spot(None, 0)

    def form(self, key: Any) -> AvroForm:  # noqa: ARG002
        return self._form


def arrow_type(schema: Any, named: dict[str, Any]) -> pa.DataType:
    """The Arrow type of an Avro schema. Maps, recursive types and unions of several types are JSON text."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return arrow_type(others[0], named) if len(others) == 1 else JSON_TEXT
    if isinstance(schema, str):
        if schema in named:
            return named[schema]
        return PRIMITIVES.get(schema, JSON_TEXT)
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = JSON_TEXT  # while its own fields are read: a recursive type is text
    found = _complex(schema, kind, named)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _complex(schema: Any, kind: Any, named: dict[str, Any]) -> pa.DataType:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in LOGICAL:
        return LOGICAL[logical]
    if kind == "array":
        return pa.list_(arrow_type(schema["items"], named))
    if kind in ("record", "error"):
        fields = [pa.field(each["name"], arrow_type(each["type"], named)) for each in schema["fields"]]
        return pa.struct(fields) if fields else JSON_TEXT  # no file holds a struct without fields
    return PRIMITIVES[kind] if isinstance(kind, str) and kind in PRIMITIVES else JSON_TEXT


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value of fastavro as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else _text(value)
    if pa.types.is_list(kind):
        return [plain(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value.get(field.name), field.type) for field in kind}
    if pa.types.is_int64(kind) and not isinstance(value, int):  # a time of day
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    return str(value)
