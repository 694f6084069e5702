"""Values in Avro, by fastavro: the columns of a schema and the cells of a record."""

from typing import Any, Final

import pyarrow as pa

from kpybroker.client.schemas.avro import AvroSchema, logical_type
from kpybroker.client.schemas.registry import AVRO, FIVE_BYTES, Registry, schema_id
from kpybroker.machines.lake.naming import NamingRule
from kpybroker.machines.lake.texts import text_of
from kpybroker.machines.schemas.errors import Unknown, one_line
from kpybroker.pipeline.lake.by_schema import JSON_TEXT, ColumnKind, SchemaPosition, bounded, same, structure
from kpybroker.pipeline.lake.errors import LakeError

TEXT: Final = ColumnKind(JSON_TEXT, text_of)
"""Unions of several types, maps and records without fields."""


def _time_of_day(value: Any) -> int:
    seconds: int = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + int(value.microsecond)


PRIMITIVES: Final[dict[str, ColumnKind]] = {
    "boolean": ColumnKind(pa.bool_(), same),
    "int": ColumnKind(pa.int64(), same),
    "long": ColumnKind(pa.int64(), same),
    "float": ColumnKind(pa.float64(), same),
    "double": ColumnKind(pa.float64(), same),
    "bytes": ColumnKind(pa.binary(), same),
    "fixed": ColumnKind(pa.binary(), same),
    "string": ColumnKind(pa.string(), same),
    "enum": ColumnKind(pa.string(), same),
}
LOGICAL: Final[dict[str, ColumnKind]] = {
    "date": ColumnKind(pa.date32(), same),
    "timestamp-millis": ColumnKind(pa.timestamp("us", "UTC"), same),
    "timestamp-micros": ColumnKind(pa.timestamp("us", "UTC"), same),
    "local-timestamp-millis": ColumnKind(pa.timestamp("us"), same),
    "local-timestamp-micros": ColumnKind(pa.timestamp("us"), same),
    "time-millis": ColumnKind(pa.int64(), _time_of_day),
    "time-micros": ColumnKind(pa.int64(), _time_of_day),
    "uuid": TEXT,
}
MOST_DIGITS: Final = 38
"""A decimal of more digits is text: neither table format has a type for it."""


class AvroForm:
    """A schema of records. An int is a long and a float a double; nested records are structs, lists are lists."""

    def __init__(self, schema: AvroSchema, rule: NamingRule) -> None:
        """Unknown if the schema has no columns."""
        self.name = schema.name
        named: dict[str, ColumnKind] = {}
        try:
            for each in schema.referenced:
                kind_of(each, named, rule)
            if schema.parsed.get("type") != "record":
                raise Unknown(f"{self.name} is not of a record")
            kinds = {each["name"]: kind_of(each["type"], named, rule) for each in schema.parsed["fields"]}
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise Unknown(f"{self.name} cannot be used: {one_line(error)}") from None
        self._content = schema.read
        self._reads = [(name, kind.read) for name, kind in kinds.items()]
        self.schema = pa.schema([pa.field(name, kind.type) for name, kind in kinds.items()])

    def cells(self, content: bytes) -> list[Any]:
        found = self._content(content)
        return [None if (value := found[name]) is None else read(value) for name, read in self._reads]


class RegisteredAvro:
    """Avro with Confluent's five bytes."""

    def __init__(self, registry: Registry, rule: NamingRule) -> None:
        self._registry = registry
        self._rule = rule

    def spot(self, value: bytes) -> SchemaPosition:
        return SchemaPosition(schema_id(value), FIVE_BYTES)

    def form(self, key: Any) -> AvroForm:
        found = self._registry.schema(key, AVRO)
        return AvroForm(AvroSchema(f"schema {key}", found.text, [each for _, each in found.references]), self._rule)


class LocalAvro:
    """Avro of one schema, which a file has, with nothing before a record."""

    def __init__(self, text: bytes, rule: NamingRule) -> None:
        """LakeError if the schema cannot be used."""
        try:
            self._form = AvroForm(AvroSchema("the schema", text.decode()), rule)
        except (Unknown, UnicodeDecodeError) as error:
            raise LakeError(one_line(error)) from None

    def spot(self, value: bytes) -> SchemaPosition:  # noqa: ARG002
        return SchemaPosition(None, 0)

    def form(self, key: Any) -> AvroForm:  # noqa: ARG002
        return self._form


def kind_of(schema: Any, named: dict[str, ColumnKind], rule: NamingRule) -> ColumnKind:
    """The column of an Avro schema. Maps, recursive types and unions of several types are JSON text."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return kind_of(others[0], named, rule) if len(others) == 1 else TEXT
    if isinstance(schema, str):
        return named.get(schema) or PRIMITIVES.get(schema, TEXT)
    if "name" in schema:
        named[schema["name"]] = TEXT  # while its own fields are read: a recursive type is text
    found = _complex(schema, schema["type"], named, rule)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _complex(schema: Any, kind: Any, named: dict[str, ColumnKind], rule: NamingRule) -> ColumnKind:
    logical = logical_type(schema)
    if logical == "decimal":
        if schema["precision"] > MOST_DIGITS:
            return TEXT
        return ColumnKind(pa.decimal128(schema["precision"], schema.get("scale", 0)), same)
    if logical in LOGICAL:
        return LOGICAL[logical]
    if kind == "array":
        items = kind_of(schema["items"], named, rule)
        read = items.read
        return bounded(
            ColumnKind(pa.list_(items.type), lambda found: [None if each is None else read(each) for each in found]),
            text_of,
        )
    if kind in ("record", "error"):
        fields = {each["name"]: kind_of(each["type"], named, rule) for each in schema["fields"]}
        if not fields:
            return TEXT  # no file holds a struct without fields
        names, struct = structure(fields, rule)
        reads = [(field, name, each.read) for (field, each), name in zip(fields.items(), names, strict=True)]
        return bounded(
            ColumnKind(
                struct,
                lambda found: {
                    name: None if (value := found[field]) is None else read(value) for field, name, read in reads
                },
            ),
            text_of,
        )
    return PRIMITIVES[kind] if isinstance(kind, str) and kind in PRIMITIVES else TEXT
