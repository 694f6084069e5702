"""The time that each client of a listener has for a handshake or a login: the same for all of them.

The client that began first is the first one whose time is over. So one timer serves all of them, and a client costs two
entries of a dict instead of a timer of the event loop.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from kpybroker.runtime.io.scheduler import Scheduler, Timer

T = TypeVar("T")


class TimeLimit(Generic[T]):
    """A time limit, and those who have begun and are not done."""

    def __init__(self, limit_ms: float, missed: Callable[[T], object]) -> None:
        """``missed`` is called with each one whose time is over."""
        self._limit_ms = limit_ms
        self._missed = missed
        self._until_ms: dict[T, float] = {}
        """The end of each one's time, in the order of these ends."""
        self._timer: Timer | None = None

    def begin(self, one: T, scheduler: Scheduler) -> None:
        """Its time begins now."""
        self._until_ms[one] = scheduler.monotonic_ms() + self._limit_ms
        self._wait(self._limit_ms, scheduler)

    def end(self, one: T) -> None:
        """It is done, or gone. Safe to call twice."""
        self._until_ms.pop(one, None)

    def _look(self, scheduler: Scheduler) -> None:
        """Call ``missed`` for those whose time is over, and wait for the end of the next one's."""
        self._timer = None
        now_ms = scheduler.monotonic_ms()
        while self._until_ms:
            one, until_ms = next(iter(self._until_ms.items()))
            if until_ms > now_ms:
                self._wait(until_ms - now_ms, scheduler)
                return
            del self._until_ms[one]
            self._missed(one)

    def _wait(self, wait_ms: float, scheduler: Scheduler) -> None:
        """Look again after this time, unless that is to be sooner: somebody may have begun while others were called."""
        if self._timer is None:
            self._timer = scheduler.call_later(wait_ms, self._look, scheduler)
