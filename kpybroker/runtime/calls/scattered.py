"""A mapping of up to a million keys that never takes long: its parts grow one at a time, and are freed in steps.

A dictionary of that size takes tens of milliseconds when it grows, and again when it is freed. Not for few keys: those
are in a dictionary here, too.

Invariant: a key is in the part that its hash names, or in the first part while there is only one.
"""

from collections.abc import Generator, Iterator, MutableMapping
from itertools import chain
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
FEW: Final = 4096
"""The keys that one part holds before there are `PARTS`."""
PARTS: Final = 256
FEW_ITEMS: Final = 16
"""Shorter values are freed with their keys."""
STEP_ITEMS: Final = 512
"""The number of items that are freed in one step."""


class Scattered(MutableMapping[K, V]):
    """The mapping. Its order is that of a dictionary only while it has few keys."""

    __slots__ = ("_few", "_mask", "_parts")

    def __init__(self) -> None:
        self._few: dict[K, V] = {}
        self._parts: list[dict[K, V]] = [self._few]
        self._mask = 0

    def __getitem__(self, key: K) -> V:
        return self._parts[hash(key) & self._mask][key]

    def __setitem__(self, key: K, value: V) -> None:
        self._parts[hash(key) & self._mask][key] = value
        if not self._mask and len(self._few) > FEW:
            self._scatter()

    def __delitem__(self, key: K) -> None:
        del self._parts[hash(key) & self._mask][key]

    def __contains__(self, key: object) -> bool:
        return key in self._parts[hash(key) & self._mask]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __bool__(self) -> bool:
        return any(self._parts)

    def emptied(self) -> Generator[None, None, None]:
        """Forget everything, in steps."""
        for part in self._parts:
            yield from emptied(part)
            if self._mask:
                yield

    def _scatter(self) -> None:
        few, self._few, self._mask = self._few, {}, PARTS - 1
        self._parts = [{} for _ in range(PARTS)]
        for key, value in few.items():
            self._parts[hash(key) & self._mask][key] = value


def emptied(found: dict[Any, Any] | list[Any] | set[Any]) -> Generator[None, None, None]:
    """Empty a list, a set, or a dictionary with the sets and lists that are its values, in steps."""
    left = STEP_ITEMS
    while found:
        if isinstance(found, dict):
            value = found.popitem()[1]
            if isinstance(value, list | set) and len(value) > FEW_ITEMS:
                yield from emptied(value)
            left -= 1
        elif isinstance(found, list):
            del found[-STEP_ITEMS:]
            left = 0
        else:
            found.pop()
            left -= 1
        if not left:
            left = STEP_ITEMS
            yield
