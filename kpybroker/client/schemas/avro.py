"""Schemas of Avro, by fastavro: one record of a schema is read from its bytes."""

import io
import json
from collections.abc import Iterable
from datetime import time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import fastavro
from fastavro import _read_py  # the reader in Python, whose recursion is watched
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException

from kpybroker.client.schemas.registry import Schema
from kpybroker.machines.schemas.avro_shape import MOST_DEPTH, AvroShape, shape_of
from kpybroker.machines.schemas.errors import Unknown, one_line

EXACT: Final = "kpybroker-"
"""Before the names of logical types that fastavro rounds, or reads beyond their range."""
MOST_DIGITS: Final = 1_000
DAY_US: Final = 86_400_000_000


class AvroSchema:
    """A schema, with the types that other schemas define for it."""

    def __init__(self, name: str, text: str, references: Iterable[Schema] = ()) -> None:
        """Unknown if the schema cannot be used."""
        self.name = name
        self.referenced: list[Any] = []
        """The parsed schemas that it refers to, each behind those that it refers to itself."""
        try:
            known: dict[str, Any] = {}
            self._learn(references, known)
            self.parsed: Any = fastavro.parse_schema(_exact(json.loads(text)), known)
            shapes: dict[str, AvroShape] = {}
            deepest = max(shape_of(each, shapes).depth for each in (*self.referenced, self.parsed))
        except (SchemaParseException, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise Unknown(f"{name} cannot be used: {one_line(error)}") from None
        except Unknown as error:
            raise Unknown(f"{name} cannot be used: {error}") from None
        self._reader = fastavro.schemaless_reader if deepest <= MOST_DEPTH else _read_py.schemaless_reader

    def _learn(self, references: Iterable[Schema], known: dict[str, Any]) -> None:
        for schema in references:
            self._learn((each for _, each in schema.references), known)
            self.referenced.append(fastavro.parse_schema(_exact(json.loads(schema.text)), known))

    def read(self, content: bytes) -> Any:
        """The value in these bytes. Any exception says that they are not of this schema."""
        stream = io.BytesIO(content)
        found: Any = self._reader(stream, self.parsed, None)
        if left := len(content) - stream.tell():
            raise ValueError(f"{left} bytes are left behind the record")
        return found


def logical_type(schema: Any) -> str | None:
    """The name of the logical type of a parsed schema, as the specification has it; None if it has none that is valid
    for its type."""
    kind, logical = schema.get("type"), schema.get("logicalType")
    if not isinstance(logical, str) or f"{kind}-{logical}" not in LOGICAL_READERS:
        return None
    return logical.removeprefix(EXACT)


def _exact(schema: Any) -> Any:
    """A schema whose decimals, times of day and UUIDs are read by the functions below."""
    if isinstance(schema, list):
        return [_exact(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _exact(each) for key, each in schema.items()}
    logical = found.get("logicalType")
    if isinstance(logical, str) and f"{found.get('type')}-{EXACT}{logical}" in LOGICAL_READERS:
        if (logical == "decimal" and not _has_digits(found)) or (logical == "uuid" and found.get("size") != 16):
            del found["logicalType"]
        else:
            found["logicalType"] = EXACT + logical
    return found


def _has_digits(schema: dict[str, Any]) -> bool:
    """Whether a decimal has a valid precision and scale; otherwise it is bytes, as the specification says."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    return type(precision) is type(scale) is int and 1 <= precision <= MOST_DIGITS and 0 <= scale <= precision


def _decimal(content: bytes, schema: Any, _reader_schema: Any = None) -> Decimal:
    digits = str(abs(number := int.from_bytes(content, "big", signed=True)))
    if len(digits) > schema["precision"]:
        raise ValueError(f"a decimal has {len(digits)} digits, and not {schema['precision']} at most")
    return Decimal((int(number < 0), tuple(map(int, digits)), -schema.get("scale", 0)))


def _time_of_millis(number: int, _schema: Any = None, _reader_schema: Any = None) -> time:
    return _time_of_micros(number * 1_000)


def _time_of_micros(number: int, _schema: Any = None, _reader_schema: Any = None) -> time:
    if not 0 <= number < DAY_US:
        raise ValueError(f"a time of day is {number} microseconds")
    seconds, micros = divmod(number, 1_000_000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)


def _uuid(content: bytes, _schema: Any = None, _reader_schema: Any = None) -> UUID:
    return UUID(bytes=content)


LOGICAL_READERS[f"bytes-{EXACT}decimal"] = LOGICAL_READERS[f"fixed-{EXACT}decimal"] = _decimal
LOGICAL_READERS[f"int-{EXACT}time-millis"] = _time_of_millis
LOGICAL_READERS[f"long-{EXACT}time-micros"] = _time_of_micros
LOGICAL_READERS[f"fixed-{EXACT}uuid"] = _uuid
