"""Values as JSON, and the JSON schema of their types: so what ``/api/`` answers and what its document says cannot
differ. Pure."""

import dataclasses
import json
import types
from collections.abc import Iterator
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


def to_json(value: Any) -> Any:
    """A dataclass as plain objects, lists and texts."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {name: to_json(each) for name, each in value.items()}
    return value


def json_pieces(value: Any) -> Iterator[str]:
    """A dataclass as JSON, in pieces: the elements of its lists one by one."""
    for number, field in enumerate(dataclasses.fields(value)):
        yield f"{',' if number else '{'}{_dumped(field.name)}:"
        found = getattr(value, field.name)
        if isinstance(found, tuple):
            yield "["
            for place, each in enumerate(found):
                yield f"{',' if place else ''}{_dumped(to_json(each))}"
            yield "]"
        else:
            yield _dumped(to_json(found))
    yield "}\n"


def _dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


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
