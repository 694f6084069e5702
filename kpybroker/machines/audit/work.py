"""The form of a map step: pieces of work in, results out. `mapping` has the one with processes. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar


class SizedWork(Protocol):
    """A piece of work with the number of its bytes."""

    @property
    def size_bytes(self) -> int: ...


T = TypeVar("T", bound=SizedWork)
R = TypeVar("R")
Reached = Callable[[int], object]
"""Takes the number of bytes that were read so far."""


class Mapped(Protocol):
    """A map step: it calls a function with each piece of work, in any order."""

    def __call__(self, call: Callable[[T], R], work: Sequence[T], reached: Reached) -> Iterator[R]: ...
