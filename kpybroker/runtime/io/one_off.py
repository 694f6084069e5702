"""Work that may block for seconds, in a thread of its own: fetching something from another server.

Unlike the threads of a scheduler it delays nothing else, and it does not keep the process from ending.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

T = TypeVar("T")


class Loop(Protocol):
    """The part of a scheduler that is needed."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: object) -> object: ...


def in_thread(
    loop: Loop, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object], name: str
) -> None:
    """Run ``work`` in a new thread, then ``done(result, None)`` or ``done(None, error)`` on the loop."""

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(done, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
