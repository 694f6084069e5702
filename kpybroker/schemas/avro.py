"""Schemas of Avro, by fastavro: one record of a schema is read from its bytes."""

import io
import json
from collections.abc import Iterable
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from kpybroker.schemas.errors import Unknown, one_line
from kpybroker.schemas.registry import Schema


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
            self.parsed: Any = fastavro.parse_schema(json.loads(text), known)
        except (SchemaParseException, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise Unknown(f"{name} cannot be used: {one_line(error)}") from None

    def _learn(self, references: Iterable[Schema], known: dict[str, Any]) -> None:
        for schema in references:
            self._learn((each for _, each in schema.references), known)
            self.referenced.append(fastavro.parse_schema(json.loads(schema.text), known))

    def read(self, content: bytes) -> Any:
        """The value in these bytes. Any exception says that they are not of this schema."""
        stream = io.BytesIO(content)
        found: Any = fastavro.schemaless_reader(stream, self.parsed, None)
        if left := len(content) - stream.tell():
            raise ValueError(f"{left} bytes are left behind the record")
        return found
