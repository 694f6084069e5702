"""The largest requests that are accepted: as many elements as a decoder makes, in each array of each API.

Made from the declarations of the messages, like those of `swollen`, but bounded by the memory that the elements take
(`kpywire.sizes`). ``share`` is the part of the largest bound that a request takes.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from swollen import Array, Filling, arrays, swollen

from kpybroker.machines.apis import MOST_OBJECT_BYTES
from kpywire import api, fetch, produce
from kpywire.schema import Shape, fields_of
from kpywire.sizes import MAX_OBJECT_BYTES, TAGGED_FIELD_BYTES, element_price
from kpywire.varint import encode_unsigned_varint

MOST_FRAME_BYTES: Final = 90_000_000
"""Below ``socket.request.max.bytes``."""
OWN_BOUNDS: Final = {api.PRODUCE: produce.MOST_BYTES, api.FETCH: fetch.MOST_BYTES}


class Large(NamedTuple):
    """A request with header and body; ``form`` says of what it has many."""

    key: int
    form: str
    payload: bytes

    def __str__(self) -> str:
        return f"{api.API_KEYS[self.key].name}: {self.form}, {len(self.payload)} bytes"


def largest(
    key: int, version: int, share: float, name: str, kinds: tuple[int, ...] = (0,), *, both: bool = True
) -> Iterator[Large]:
    """The requests of one API. ``name`` names what is above the many elements; ``kinds`` are values of numbers such as
    resource types. ``both``: with elements that are all different, and with equal ones; else only the former."""
    cls = api.request_class(key)
    for array in arrays(cls, version):
        for kind in kinds:
            for distinct in (True, False)[: 1 + both]:
                count = most_elements(cls, version, array, share)
                payload = swollen(key, version, array, count, Filling(name, distinct, kind))
                if len(payload) > MOST_FRAME_BYTES:
                    payload = swollen(
                        key, version, array, count * MOST_FRAME_BYTES // len(payload), Filling(name, distinct, kind)
                    )
                form = f"{count} {'different' if distinct else 'equal'} {array}{f' of type {kind}' if kind else ''}"
                yield Large(key, form, payload)
    if version >= api.API_KEYS[key].flexible_version:
        yield Large(
            key,
            "tagged fields",
            with_tags(swollen(key, version, Array(("",)), 0, Filling(name, True)), most_bytes(cls, share)),
        )


def most_elements(cls: type, version: int, array: Array, share: float) -> int:
    """The number of elements of one array that a decoder makes."""
    shape = _shape_of(cls, array.path)
    assert shape.element is not None
    return max(1, most_bytes(cls, share) // element_price(shape.element, version))


def most_bytes(cls: type, share: float) -> int:
    """The memory that the elements of such a request take, less what those above an array do."""
    key: int = cls.KEY  # type: ignore[attr-defined]
    most = OWN_BOUNDS.get(key, MOST_OBJECT_BYTES[key])
    return min(most, int(MAX_OBJECT_BYTES * share)) - 10_000


def _shape_of(cls: type, path: tuple[str, ...]) -> Shape:
    (field,) = (each for each in fields_of(cls) if each.name == path[0])
    shape: Shape = field.shape
    if len(path) == 1:
        return shape
    inner: Any = shape.struct or (shape.element and shape.element.struct)
    return _shape_of(inner, path[1:])


def with_tags(payload: bytes, most: int) -> bytes:
    """A request of a flexible version without tagged fields, with as many unknown ones as are accepted."""
    count = most // TAGGED_FIELD_BYTES
    assert payload.endswith(b"\0")
    tags = b"".join(encode_unsigned_varint(1000 + number) + b"\0" for number in range(count))
    return payload[:-1] + encode_unsigned_varint(count) + tags
