"""The values of pages as JSON, as ``/api/`` answers them. Their document is made from the same types. Pure."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any


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
    """A dataclass as JSON, in pieces: the elements of its lists one by one, also of those in further dataclasses."""
    yield from _fields(value)
    yield "\n"


def _fields(value: Any) -> Iterator[str]:
    for number, field in enumerate(dataclasses.fields(value)):
        yield f"{',' if number else '{'}{_dumped(field.name)}:"
        found = getattr(value, field.name)
        if isinstance(found, tuple):
            yield "["
            for place, each in enumerate(found):
                yield f"{',' if place else ''}{_dumped(to_json(each))}"
            yield "]"
        elif dataclasses.is_dataclass(found):
            yield from _fields(found)
        else:
            yield _dumped(to_json(found))
    yield "}"


def _dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
