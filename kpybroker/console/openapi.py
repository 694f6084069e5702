"""Writes the OpenAPI document of ``/api/``, from the table of pages and the types of their values.

``python -m kpybroker.console.openapi`` writes ``kpybroker/console/static/openapi.json``; a test compares the two.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from kpybroker.console.answers.records import Download
from kpybroker.console.json_form import Schemas
from kpybroker.console.pages import ACTIONS, PAGES, Action, Page, Parameter

FILE: Final = Path(__file__).parent / "static" / "openapi.json"
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


def _get(page: Page, schemas: Schemas) -> dict[str, Any]:
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


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
