"""Waiting for a condition without caring how long it takes, up to a limit."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(condition: Callable[[], object], what: str, within_s: float = 30.0, every_s: float = 0.02) -> None:
    """Return once the condition holds; fails with ``what`` was waited for otherwise. The condition is asked often."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s:g} s for {what}, which did not happen")
        time.sleep(every_s)


def eventually_found(look: Callable[[], Found | None], what: str) -> Found:
    """The result of ``look`` as soon as it is not None."""
    found: list[Found | None] = []

    def is_there() -> bool:
        found.append(look())
        return found[-1] is not None

    eventually(is_there, what)
    assert found[-1] is not None
    return found[-1]


def becomes(look: Callable[[], object], expected: object, within_s: float = 10.0) -> None:
    """Asserts what is seen, soon: a broker takes a change over a little after the controller has answered it."""
    deadline = time.monotonic() + within_s
    while (found := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == expected
