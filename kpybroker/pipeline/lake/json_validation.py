"""JSON documents with a schema: whether they are valid, and the columns that the schema declares."""

from typing import Any, Final

from kpybroker.client.schemas.json_schema import JsonSchema
from kpybroker.client.schemas.registry import FIVE_BYTES, JSON, Registry, Schema, schema_id
from kpybroker.machines.lake import json_schema as columns
from kpybroker.machines.schemas.errors import Unknown, one_line
from kpybroker.pipeline.lake.errors import LakeError

TYPES: Final = {
    "boolean": columns.BOOLEAN,
    "integer": columns.LONG,
    "number": columns.DOUBLE,
    "string": columns.STRING,
    "object": columns.JSON,
    "array": columns.JSON,
}
NULL: Final = "null"


class JsonForm:
    """A schema of documents, with the types of the fields that it declares with one."""

    def __init__(self, schema: JsonSchema) -> None:
        """Unknown for a schema whose types are nested too deep."""
        try:
            self.types = declared(schema.parsed)
        except RecursionError:
            raise Unknown(f"{schema.name} cannot be used: nested too deep") from None
        self.reason = schema.reason


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
        self._forms: dict[int, JsonForm | str] = {}

    def form(self, value: bytes) -> JsonForm:
        """The schema of a value. Unknown."""
        number = schema_id(value)
        form = self._forms.get(number)
        if form is None:
            try:
                schema = self._registry.schema(number, JSON)
                form = JsonForm(JsonSchema(f"schema {number}", schema))
            except Unknown as error:
                form = str(error)
            self._forms[number] = form
        if isinstance(form, str):
            raise Unknown(form)
        return form


class LocalJson:
    """One schema, which a file has, with nothing before a document."""

    start = 0

    def __init__(self, text: bytes) -> None:
        """LakeError if the schema cannot be used."""
        try:
            self._form = JsonForm(JsonSchema("the schema", Schema(text.decode())))
        except (Unknown, UnicodeDecodeError) as error:
            raise LakeError(one_line(error)) from None

    def form(self, value: bytes) -> JsonForm:  # noqa: ARG002
        """The schema of a value."""
        return self._form
