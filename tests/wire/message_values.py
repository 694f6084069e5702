"""Values to fill messages with, edges of types, short and long strings and arrays, and their form in Kafka's JSON."""

from base64 import b64encode
from collections.abc import Mapping
from random import Random
from typing import Any

from kpywire.schema import Field, Shape, fields_of
from kpywire.uuid import to_string

BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
STRINGS = ["", "a", "topic-1", "é", "日本", "\U0001f600", "\0", "x" * 126, "x" * 127, "y" * 128, "z" * 300]
FLOATS = [0.0, 1.5, -2.25, 1e300, 5e-324]


def random_message(cls: type, version: int, rng: Random, size: int = 3) -> Any:
    """A message with fields that this version has; the others keep their defaults. ``size`` bounds its arrays."""
    message = cls()
    for each in fields_of(cls):
        if version in each.versions and (each.tag is None or rng.random() < 0.6):
            setattr(message, each.name, _field(each, version, rng, size))
    return message


def _field(each: Field, version: int, rng: Random, size: int) -> Any:
    if version in each.nullable and rng.random() < 0.25:
        return None
    return _value(each.shape, version, rng, size)


def _value(shape: Shape, version: int, rng: Random, size: int) -> Any:
    if shape.kind in BITS:
        top = 1 << BITS[shape.kind] - 1
        return rng.choice([0, 1, -1, top - 1, -top, rng.randrange(-top, top)])
    if shape.struct is not None:
        return random_message(shape.struct, version, rng, size)
    match shape.kind:
        case "u16":
            return rng.choice([0, 1, 0x7FFF, 0x8000, 0xFFFF])
        case "f64":
            return rng.choice(FLOATS)
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(STRINGS)
        case "uuid":
            return rng.choice([bytes(16), rng.randbytes(16)])
        case "bytes" | "record_batches":
            return rng.randbytes(rng.choice([0, 1, 100, 126, 127, 128, 300]))
    assert shape.element is not None
    count = rng.randrange(size + 1)
    if shape.element.struct is None and rng.random() < 0.1:
        count = rng.choice([126, 127, 128, 200])
    smaller = max(1, size - 1)
    return [_value(shape.element, version, rng, smaller) for _ in range(count)]


def to_json(message: Any, version: int, names: Mapping[str, str]) -> dict[str, Any]:
    """The message as Kafka's ``...JsonConverter`` reads it. ``names``: Kafka's spelling of our field names."""
    return {
        names[each.name]: _json(getattr(message, each.name), each.shape, version, names)
        for each in fields_of(type(message))
        if version in each.versions
    }


def _json(value: Any, shape: Shape, version: int, names: Mapping[str, str]) -> Any:
    if value is None:
        return None
    match shape.kind:
        case "struct":
            return to_json(value, version, names)
        case "array":
            assert shape.element is not None
            return [_json(each, shape.element, version, names) for each in value]
        case "bytes" | "record_batches":
            return b64encode(value).decode()
        case "uuid":
            return to_string(value)
    return value
