"""Requests with as many elements as fit: what a request asks of the broker beyond the bytes it takes.

Made from the declarations of the messages, so every array of every API that is served is among them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kpywire import api
from kpywire.codec import encode
from kpywire.header import encode_request_header
from kpywire.schema import Field, Shape, fields_of

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Array(NamedTuple):
    """The place of an array in a request: names of fields from the top, the last one is the array."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)


def arrays(cls: type, version: int) -> Iterator[Array]:
    """Every array that a message has in this version."""
    for each in fields_of(cls):
        if version not in each.versions:
            continue
        if each.shape.kind == "array":
            yield Array((each.name,))
        inner = each.shape.struct or (each.shape.element and each.shape.element.struct)
        if inner is not None:
            for array in arrays(inner, version):
                yield Array((each.name, *array.path))


class Filling(NamedTuple):
    """The values of elements. ``name`` stands in elements above the swollen array; ``kind`` in bytes of it."""

    name: str
    distinct: bool
    number: int = 0
    """The value of a number that is no index: key types, resource types, operations."""


def swollen(key: int, version: int, array: Array, count: int, filling: Filling) -> bytes:
    """A request (header and body) whose ``array`` has ``count`` small elements, all different if ``distinct``."""
    message = _message(api.request_class(key), version, array.path, count, filling)
    return encode_request_header(key, version, 1, "swollen") + encode(message, version)


def _message(cls: type, version: int, path: tuple[str, ...], count: int, filling: Filling) -> Any:
    message = cls()
    for each in fields_of(cls):
        if version not in each.versions:
            continue
        if path and each.name == path[0]:
            setattr(message, each.name, _along(each, version, path[1:], count, filling))
        elif each.tag is None:
            setattr(message, each.name, _plain(each.shape, each.name, version, 0, filling))
    return message


def _along(each: Field, version: int, rest: tuple[str, ...], count: int, filling: Filling) -> Any:
    shape = each.shape
    if shape.kind == "struct":
        assert shape.struct is not None
        return _message(shape.struct, version, rest, count, filling)
    assert shape.element is not None
    if rest:
        assert shape.element.struct is not None
        return [_message(shape.element.struct, version, rest, count, filling)]
    return [_element(shape.element, version, number if filling.distinct else 0, filling) for number in range(count)]


def _element(shape: Shape, version: int, number: int, filling: Filling) -> Any:
    if shape.struct is None:
        return _plain(shape, "", version, number, filling._replace(name=short_name(number)))
    message = shape.struct()
    for each in fields_of(shape.struct):
        if version in each.versions and each.tag is None:
            value = _plain(each.shape, each.name, version, number, filling._replace(name=short_name(number)))
            setattr(message, each.name, value)
    return message


def _plain(shape: Shape, name: str, version: int, number: int, filling: Filling) -> Any:
    """The smallest value that makes sense: ``number`` tells elements from one another."""
    match shape.kind:
        case "string":
            return filling.name
        case "array":
            return []
        case "struct":
            assert shape.struct is not None
            return _message(shape.struct, version, (), 0, filling)
        case "bytes":
            return b""
        case "record_batches":
            return None
        case "uuid":
            return number.to_bytes(16, "big")
        case "bool":
            return False
        case "f64":
            return 0.0
    if name.endswith("_type"):
        return filling.number
    if name == "acks":
        return -1  # with 0 there is no answer
    top = {"i8": 0x7F, "i16": 0x7FFF, "u16": 0xFFFF}.get(shape.kind, 0x7FFF_FFFF)
    return min(number, top)


def short_name(number: int) -> str:
    """A name of few bytes, another one for each number."""
    text = ""
    while True:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
        if not number:
            return text
