"""Values in Avro with Confluent's five bytes: each schema of the registry gives its columns, by fastavro."""

import io
import json
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from kpybroker.lake.errors import one_line
from kpybroker.lake.registry import Registry, Unknown, schema_id
from kpybroker.lake.tables import FACTS, REASON, VALUE, with_reasons
from kpybroker.lake.values import FIVE_BYTES, Sorted, assembled

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
"""The type of unions of several types and of maps: JSON in a string."""


class AvroValues:
    """Avro records. An int is a long and a float a double; nested records are structs, lists are lists."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._parsed: dict[int, tuple[Any, pa.Schema]] = {}

    def first_schema(self, sample: pa.Table) -> pa.Schema:
        fields = {field.name: field for field in FACTS}
        for value in sample[VALUE].to_pylist():
            try:
                for field in self._schema(schema_id(value))[1]:
                    fields.setdefault(field.name, field)
            except Unknown:
                continue
        return pa.schema(list(fields.values()))

    def _schema(self, number: int) -> tuple[Any, pa.Schema]:
        if number not in self._parsed:
            text = self._registry.schema(number, "AVRO")
            try:
                parsed: Any = fastavro.parse_schema(json.loads(text))
                named: dict[str, Any] = {}
                if parsed.get("type") != "record":
                    raise Unknown(f"schema {number} is not of a record")
                fields = [pa.field(each["name"], arrow_type(each["type"], named)) for each in parsed["fields"]]
            except (SchemaParseException, ValueError, KeyError, AttributeError, TypeError) as error:
                raise Unknown(f"schema {number} cannot be used: {one_line(error)}") from None
            if taken := {field.name for field in fields} & {*FACTS.names, REASON}:
                raise Unknown(f"schema {number} has a field {min(taken)}, which is a column of every table")
            self._parsed[number] = parsed, pa.schema(fields)
        return self._parsed[number]

    def columns(self, raw: pa.Table, table: pa.Schema) -> Sorted:
        """Sort by schema, since each has its own columns."""
        groups: dict[int, list[int]] = {}
        values = raw[VALUE].to_pylist()
        lost: dict[int, str] = {}
        for row, value in enumerate(values):
            try:
                groups.setdefault(schema_id(value), []).append(row)
            except Unknown as error:
                lost[row] = str(error)
        found = []
        columns = {field.name: field.type for field in table}
        for number, rows in sorted(groups.items()):
            try:
                parsed, schema = self._schema(number)
            except Unknown as error:
                lost.update(dict.fromkeys(rows, str(error)))
                continue
            if (misfit := _misfit(schema, columns)) is not None:
                lost.update(dict.fromkeys(rows, f"schema {number}: {misfit}"))
                continue
            columns.update({field.name: field.type for field in schema})
            part = raw.take(pa.array(rows, pa.int64()))
            found.append(_decoded(part, parsed, schema, [values[row] for row in rows]))
        order = sorted(lost)
        dead = with_reasons(raw.take(pa.array(order, pa.int64())), pa.array([lost[row] for row in order], pa.string()))
        empty = raw.slice(0, 0).select(FACTS.names)
        rows_of = pa.concat_tables([empty, *(each.rows for each in found)], promote_options="default")
        return Sorted(rows_of, pa.concat_tables([dead, *(each.dead for each in found)]))


def _misfit(schema: pa.Schema, columns: dict[str, pa.DataType]) -> str | None:
    for field in schema:
        known = columns.get(field.name, field.type)
        if known != field.type:
            return f"field {field.name} is {field.type}, and the column is {known}"
    return None


def _decoded(raw: pa.Table, parsed: Any, schema: pa.Schema, values: list[bytes]) -> Sorted:
    documents: list[Any] = []
    reasons: list[str | None] = []
    for value in values:
        document: Any = None
        reason: str | None = None
        stream = io.BytesIO(value)
        stream.seek(FIVE_BYTES)
        try:
            read: Any = fastavro.schemaless_reader(stream, parsed, None)
            if stream.tell() != len(value):
                reason = f"{len(value) - stream.tell()} bytes are left behind the Avro record"
            document = [plain(read.get(field.name), field.type) for field in schema]
            for cell, field in zip(document, schema, strict=True):
                pa.scalar(cell, field.type)
        except Exception as error:  # hostile bytes raise errors of many kinds in fastavro
            reason = f"not Avro of its schema: {one_line(error)}"
        documents.append(document)
        reasons.append(reason)

    def columns(good: list[int]) -> pa.Table:
        cells = [[documents[number][column] for number in good] for column in range(len(schema))]
        return pa.table([pa.array(each, field.type) for each, field in zip(cells, schema, strict=True)], schema=schema)

    return assembled(raw, reasons, columns)


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
        return pa.struct([pa.field(each["name"], arrow_type(each["type"], named)) for each in schema["fields"]])
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
