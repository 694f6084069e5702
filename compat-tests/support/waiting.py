"""Waiting for something that comes true later: look again and again, and fail at a deadline with the name of what was
awaited.

All tests wait by this module; ``tests/project/test_waiting.py`` finds loops that wait by themselves. A deadline ends
tests that would hang, and says nothing of how long something may take: it is far away, and the last look is after it.
"""

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

Found = TypeVar("Found")
Name = str | Callable[[], object]
"""The text that names what is awaited; a function is called for it when the time is over, to show what was there."""

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.02


class NotInTimeError(AssertionError):
    """The awaited thing did not come before the deadline."""


def attempts(what: Name, within_s: float = PATIENCE_S, every_s: float = LOOK_EVERY_S) -> Iterator[None]:
    """Turns of a loop that breaks when it has found ``what``; a NotInTimeError names it after the deadline."""
    deadline_s = time.monotonic() + within_s
    is_over = False
    while not is_over:
        yield
        time.sleep(every_s)
        is_over = time.monotonic() > deadline_s
    yield
    raise NotInTimeError(_too_long(within_s, what))


def eventually(
    look: Callable[[], Found | None],
    what: Name | None = None,
    within_s: float = PATIENCE_S,
    every_s: float = LOOK_EVERY_S,
    *,
    despite: tuple[type[Exception], ...] = (),
) -> Found:
    """The first result of ``look`` that is true. Errors of the types in ``despite`` mean not yet."""
    errors: deque[Exception] = deque(maxlen=1)
    name = what or as_written(look)
    for _ in attempts(lambda: f"{_text(name)}{''.join(f'; {error!r}' for error in errors)}", within_s, every_s):
        try:
            if found := look():
                return found
        except despite as error:
            errors.append(error)
    raise AssertionError


def becomes(look: Callable[[], object], expected: object, within_s: float = PATIENCE_S) -> None:
    """Assert what is seen, soon: a broker takes a change over a little after the controller has answered it."""
    found: list[object] = []

    def is_so() -> bool:
        found[:] = [look()]
        return found[0] == expected

    eventually(is_so, lambda: f"{expected!r}, and found {found[0]!r}", within_s)


async def until(condition: Callable[[], object], what: Name | None = None, within_s: float = PATIENCE_S) -> None:
    """``eventually`` for coroutines: other tasks run between two looks. The condition may be one, too."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    is_over = False
    while True:
        found = condition()
        if await found if inspect.isawaitable(found) else found:
            return
        if is_over:
            raise NotInTimeError(_too_long(within_s, what or as_written(condition)))
        await asyncio.sleep(0.005)
        is_over = loop.time() > deadline_s


def _too_long(within_s: float, what: Name) -> str:
    return f"waited {within_s:g} s for {_text(what)}"


def _text(what: Name) -> str:
    return str(what() if callable(what) else what)


def as_written(look: Callable[[], object]) -> Callable[[], str]:
    """The text of a condition, for one that says all: ``eventually(lambda: is_in_sync(admin, "orders"))``."""

    def text() -> str:
        name: str = getattr(look, "__name__", repr(look))
        return " ".join(inspect.getsource(look).split()) if name == "<lambda>" else name

    return text
