"""Large requests share a part of the loop's time, so that those who send small ones are served all the time.

A large request is decoded and decided in one piece, for as long as that takes. So the time of such requests is taken
out of an account that fills slowly: while there is some left they are served as they come, which an administrator's
request after request never notices; when a flood has used it up, the others wait for it to fill, the smallest first.

Invariant: over any long time, what requests take beyond `FREE_MS` is at most `SHARE` of it, and one request.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from kpybroker.io.scheduler import Scheduler

LARGE_BYTES = 8 * 1024
SHARE = 0.25
SAVED_MS = 2_000.0
"""What the account holds when nobody sends large requests."""
FREE_MS = 10.0
"""Of each request: those of ordinary clients with a thousand partitions take less."""


class Waiting(Protocol):
    """A connection whose large request waits."""

    closed: bool

    def resume(self) -> None:
        """Try again."""


class LargeRequests:
    """The account, and who waits for it to fill."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._clock: Callable[[], float] = scheduler.monotonic_ms
        self._left_ms = SAVED_MS
        self._at_ms = self._clock()
        self._queue: list[tuple[int, int, Waiting]] = []
        self._waiting: set[Waiting] = set()
        self._order = 0
        self._granted: Waiting | None = None
        self._is_timed = False

    def may_start(self, connection: Waiting, size: int) -> bool:
        """Whether a large request may be served now; if not, its connection is resumed when it may."""
        if self._granted is connection:
            self._granted = None
            return True
        if connection in self._waiting:
            return False
        if not self._queue and self._fill() > 0:
            return True
        self._order += 1
        self._waiting.add(connection)
        heappush(self._queue, (size, self._order, connection))
        self._wake_later()
        return False

    def took(self, held_ms: float) -> None:
        """A large request held the loop for so long."""
        self._fill()
        self._left_ms -= max(0.0, held_ms - FREE_MS)

    def _fill(self) -> float:
        now_ms = self._clock()
        self._left_ms = min(SAVED_MS, self._left_ms + (now_ms - self._at_ms) * SHARE)
        self._at_ms = now_ms
        return self._left_ms

    def _wake_later(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._scheduler.call_later(max(0.0, 1.0 - self._fill() / SHARE), self._next)

    def _next(self) -> None:
        self._is_timed = False
        while self._queue and self._fill() > 0:
            _, _, connection = heappop(self._queue)
            self._waiting.discard(connection)
            if connection.closed:
                continue
            self._granted = connection
            connection.resume()
            self._granted = None
            break
        if self._queue:
            self._wake_later()
