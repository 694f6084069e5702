"""Work on many things on the loop, in pieces of a millisecond with room for clients in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from operator import itemgetter
from time import perf_counter_ns
from typing import Any, Final, TypeVar

from kpybroker.machines.console.listing import DESCENDING, Keys, sorted_rows

T = TypeVar("T")
PIECE_NS: Final = 1_000_000
PAUSE_S: Final = 0.001
PER_PART: Final = 50
_began_ns: Final = ContextVar("_began_ns", default=0)
"""The end of the last pause of this request, so that pieces of several kinds of work are one piece."""


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """The items. The loop serves others whenever the work of a request has taken a millisecond."""
    for item in items:
        yield item
        if perf_counter_ns() - _began_ns.get() >= PIECE_NS:
            await asyncio.sleep(PAUSE_S)
            _began_ns.set(perf_counter_ns())


async def sorted_in_pieces(rows: Iterable[T], keys: Keys[T], sort: str) -> list[T]:
    """The rows by a column, as `sorted_rows` has them. What each sorts by is found in pieces."""
    key = keys.get(sort.removeprefix(DESCENDING))
    if key is None:
        return list(rows)
    pairs: list[tuple[Any, T]] = [(key(row), row) async for row in paced(rows)]
    return [
        row for _, row in sorted_rows(pairs, {"key": itemgetter(0)}, "-key" if sort.startswith(DESCENDING) else "key")
    ]


async def give_way() -> None:
    """Serve others if the work of this request has taken a millisecond: for loops too short to be paced."""
    if perf_counter_ns() - _began_ns.get() >= PIECE_NS:
        await asyncio.sleep(PAUSE_S)
        _began_ns.set(perf_counter_ns())


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, some at a time: for work that takes some microseconds each, with `give_way` behind every part."""
    return (items[start : start + PER_PART] for start in range(0, len(items), PER_PART))
