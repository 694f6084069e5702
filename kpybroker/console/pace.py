"""Work on many things on the loop, in pieces of a millisecond with room for clients in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter_ns
from typing import Final, TypeVar

T = TypeVar("T")
PIECE_NS: Final = 1_000_000
PAUSE_S: Final = 0.001


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """The items. The loop serves others whenever the work on them has taken a millisecond."""
    began_ns = perf_counter_ns()
    for item in items:
        yield item
        if perf_counter_ns() - began_ns >= PIECE_NS:
            await asyncio.sleep(PAUSE_S)
            began_ns = perf_counter_ns()
