"""JSON Schema, by jsonschema-rs: whether a document is valid, and the columns that a schema declares.

References lead to the registry's own schemas alone: nothing is fetched from addresses in a schema.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema_rs

from kpybroker.lake.errors import LakeError, one_line
from kpybroker.lake.json_schema import BOOLEAN, DOUBLE, JSON, LONG, STRING
from kpybroker.lake.registry import Registry, Schema, Unknown, schema_id
from kpybroker.lake.values import FIVE_BYTES

TYPES: Final = {
    "boolean": BOOLEAN,
    "integer": LONG,
    "number": DOUBLE,
    "string": STRING,
    "object": JSON,
    "array": JSON,
}
NULL: Final = "null"
MOST_CHARACTERS: Final = 300


class JsonForm:
    """A schema of documents."""

    def __init__(self, name: str, text: str, references: Mapping[str, str] | None = None) -> None:
        """``references`` are texts of other schemas by their names. Unknown if the schema cannot be used."""
        found = references or {}

        def retrieve(uri: str) -> Any:
            path = urlsplit(uri).path.lstrip("/")
            for each in (uri, path):
                if each in found:
                    return json.loads(found[each])
            raise ValueError(f"{uri} is not a reference of the schema")

        self.name = name
        try:
            schema = json.loads(text)
            self._validator = jsonschema_rs.validator_for(schema, retriever=retrieve)
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
            raise Unknown(f"{name} cannot be used: {one_line(error)}") from None
        self.types = declared(schema)
        """The types of the fields that the schema declares with one."""

    def reason(self, document: Any) -> str | None:
        """Why a document is not valid, in one line; None for one that is."""
        if self._validator.is_valid(document):
            return None
        error = next(self._validator.iter_errors(document))
        place = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in error.instance_path)
        return f"not valid by {self.name}: {place.lstrip('.') or 'the document'}: {error.message[:MOST_CHARACTERS]}"


def declared(schema: Any) -> dict[str, str]:
    """The types of the fields that a schema of objects declares with one type, or with one and null."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    found = ((name, _type_of(each)) for name, each in properties.items())
    return {name: kind for name, kind in found if kind is not None}


def _type_of(schema: Any) -> str | None:
    if not isinstance(schema, dict):
        return None
    for choice in ("oneOf", "anyOf"):
        if isinstance(choices := schema.get(choice), list):
            others = [each for each in choices if each != {"type": NULL}]
            return _type_of(others[0]) if len(others) == 1 else None
    kinds = schema.get("type")
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != NULL]
    return TYPES.get(named[0]) if len(named) == 1 and isinstance(named[0], str) else None


class RegisteredJson:
    """The schemas of a registry, named by Confluent's five bytes."""

    start = FIVE_BYTES

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._forms: dict[int, JsonForm] = {}

    def form(self, value: bytes) -> JsonForm:
        """The schema of a value. Unknown."""
        number = schema_id(value)
        form = self._forms.get(number)
        if form is None:
            schema = self._registry.schema(number, "JSON")
            form = self._forms[number] = JsonForm(f"schema {number}", schema.text, _texts(schema))
        return form


def _texts(schema: Schema) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, reference in schema.references:
        found |= {**_texts(reference), name: reference.text}
    return found


class LocalJson:
    """One schema, which a file has, with nothing before a document."""

    start = 0

    def __init__(self, text: bytes) -> None:
        """LakeError if the schema cannot be used."""
        try:
            self._form = JsonForm("the schema", text.decode())
        except (Unknown, UnicodeDecodeError) as error:
            raise LakeError(one_line(error)) from None

    def form(self, value: bytes) -> JsonForm:  # noqa: ARG002
        """The schema of a value."""
        return self._form
