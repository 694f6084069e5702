"""The OpenAPI document of ``/api/``, from the table of pages and the types of their values.

The console serves the file; a test compares it with this.
"""

import dataclasses
import json
import re
import types
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from kpybroker.monitoring import console
from kpybroker.monitoring.console.actions import ACTIONS
from kpybroker.monitoring.console.page import Action, ConsolePage, Download, Parameter
from kpybroker.monitoring.console.pages import PAGES

FILE: Final = Path(str(console.__file__)).parent / "static" / "openapi.json"
_ERROR: Final = {
    "type": "object",
    "description": "Why a request was refused, in one line",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
    "additionalProperties": False,
}
_SEE: Final = {
    "type": "object",
    "description": "The address of the page that shows the result",
    "properties": {"see": {"type": "string"}},
    "required": ["see"],
    "additionalProperties": False,
}
_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


class Schemas:
    """The schemas of dataclasses, by their names."""

    def __init__(self) -> None:
        self.named: dict[str, dict[str, Any]] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type. That of a dataclass is a reference."""
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if dataclasses.is_dataclass(kind):
            return self._reference(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        raise TypeError(f"no schema for {kind}")

    def _reference(self, kind: Any) -> dict[str, Any]:
        name = kind.__name__
        if name not in self.named:
            self.named[name] = {}
            hints = get_type_hints(kind)
            fields = [field.name for field in dataclasses.fields(kind)]
            self.named[name] = {
                "type": "object",
                "description": " ".join((kind.__doc__ or "").split()),
                "properties": {field: self.of(hints[field]) for field in fields},
                "required": fields,
                "additionalProperties": False,
            }
        return {"$ref": f"#/components/schemas/{name}"}


def document() -> dict[str, Any]:
    """The document."""
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for page in PAGES:
        paths.setdefault(page.api_path, {})["get"] = _get(page, schemas)
    for action in ACTIONS:
        paths.setdefault(f"/api{action.path}", {})["post"] = _post(action)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The console of kpybroker",
            "version": "1",
            "description": "Everything that the pages of the console show. Times ending in _ms are since 1970.",
        },
        "security": [{}, {"basic": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**dict(sorted(schemas.named.items())), "Error": _ERROR, "See": _SEE},
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def _get(page: ConsolePage, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {"application/octet-stream": {}}
    if page.value is not Download:
        content = {"application/json": {"schema": schemas.of(page.value)}}
    return {
        "summary": page.title,
        "parameters": [*_in_path(page.path), *(_in_query(each) for each in page.parameters)],
        "responses": {"200": {"description": page.title, "content": content}, "default": _refused()},
    }


def _post(action: Action) -> dict[str, Any]:
    properties = {each.name: {"type": each.kind, "description": each.about} for each in action.parameters}
    needed = [each.name for each in action.parameters if each.is_needed]
    schema = {"type": "object", "properties": properties, "required": needed}
    return {
        "summary": action.title,
        "parameters": _in_path(action.path),
        "requestBody": {"required": bool(needed), "content": {"application/json": {"schema": schema}}},
        "responses": {"200": _answer("Done", "See"), "default": _refused()},
    }


def _in_path(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _in_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "required": parameter.is_needed,
        "schema": {"type": parameter.kind},
    }


def _refused() -> dict[str, Any]:
    return _answer("Refused", "Error")


def _answer(about: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": about, "content": content}


def text() -> str:
    """The document as text."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"
