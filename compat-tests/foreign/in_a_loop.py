"""Tests that are coroutines, each in an event loop of its own and with a limit."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

LIMIT_S = 60.0


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a plain test of a coroutine; its parameters stay fixtures."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LIMIT_S))

    return run
