"""Comparing an answer in JSON with what is expected of it, and altering each of its values."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

PLANTED = 7_777_777


class Within(NamedTuple):
    """A number between these."""

    least: float
    most: float

    def fits(self, found: Any) -> bool:
        return isinstance(found, int | float) and self.least <= found <= self.most


class Like(NamedTuple):
    """A text of a pattern."""

    pattern: str

    def fits(self, found: Any) -> bool:
        return isinstance(found, str) and re.fullmatch(self.pattern, found) is not None


class Each(NamedTuple):
    """A list whose items are all like one, at least ``least`` of them."""

    item: Any
    least: int = 0


def wrong(found: Any, expected: Any) -> str:
    """The first place where an answer is not as expected; empty if there is none."""
    if isinstance(expected, Within | Like):
        return "" if expected.fits(found) else f": {found!r} is not {expected}"
    if isinstance(expected, Each):
        kinds = expected.item if isinstance(expected.item, tuple) and type(expected.item) is tuple else (expected.item,)
        if not isinstance(found, list) or len(found) < expected.least:
            return f": {found!r} has too little"
        places = [f"[{n}]{wrong(each, kinds[0])}" for n, each in enumerate(found) if all(wrong(each, k) for k in kinds)]
        return places[0] if places else ""
    if isinstance(expected, dict):
        if not isinstance(found, dict) or found.keys() != expected.keys():
            return f": {found!r} has other names than {sorted(expected)}"
        places = [f".{name}{line}" for name, each in expected.items() if (line := wrong(found[name], each))]
        return places[0] if places else ""
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return f": {found!r} is not {expected!r}"
        pairs = enumerate(zip(found, expected, strict=True))
        places = [f"[{number}]{line}" for number, pair in pairs if (line := wrong(*pair))]
        return places[0] if places else ""
    return "" if found == expected and type(found) is type(expected) else f": {found!r} is not {expected!r}"


def altered(value: Any) -> Iterator[tuple[Any, Any]]:
    """The answer with each of its values altered, one after the other."""
    for path in list(leaves(value)):
        place = value
        for step in path[:-1]:
            place = place[step]
        before = place[path[-1]]
        place[path[-1]] = (
            not before
            if isinstance(before, bool)
            else before * 1000 + PLANTED
            if isinstance(before, int | float)
            else PLANTED
            if before is None
            else f"{before}, planted!"
        )
        yield path, value
        place[path[-1]] = before


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for step, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, step))
    elif not isinstance(value, dict | list):
        yield path
