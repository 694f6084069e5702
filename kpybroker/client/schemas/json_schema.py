"""JSON Schema, by jsonschema-rs: whether a document is valid.

References lead to the registry's own schemas alone: nothing is fetched from addresses in a schema.
"""

import json
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema_rs

from kpybroker.client.schemas.registry import Schema
from kpybroker.machines.schemas.errors import Unknown, one_line

MOST_CHARACTERS: Final = 300


class JsonSchema:
    """A schema of documents."""

    def __init__(self, name: str, schema: Schema) -> None:
        """Unknown if the schema cannot be used."""
        found = _texts(schema)

        def retrieve(uri: str) -> Any:
            path = urlsplit(uri).path.lstrip("/")
            for each in (uri, path):
                if each in found:
                    return json.loads(found[each])
            raise ValueError(f"{uri} is not a reference of the schema")

        self.name = name
        try:
            self.parsed: Any = json.loads(schema.text)
            self._validator = jsonschema_rs.validator_for(self.parsed, retriever=retrieve)
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
            raise Unknown(f"{name} cannot be used: {one_line(error)}") from None

    def reason(self, document: Any) -> str | None:
        """Why a document is not valid, in one line; None for one that is."""
        try:
            error = None if self._validator.is_valid(document) else next(self._validator.iter_errors(document), None)
        except Exception as failure:  # a document that is nested deeper than the library follows, or beyond its numbers
            return f"cannot be compared with {self.name}: {one_line(failure)}"
        if error is None:
            return None
        place = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in error.instance_path)
        return f"not valid by {self.name}: {place.lstrip('.') or 'the document'}: {error.message[:MOST_CHARACTERS]}"


def _texts(schema: Schema) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, reference in schema.references:
        found |= {**_texts(reference), name: reference.text}
    return found
