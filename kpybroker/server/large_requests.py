"""Large requests share a part of the loop's time, so that those who send small ones are served all the time.

A large request is decoded and decided in one piece, for as long as that takes. So the time of such requests is taken
out of an account: while there is some left they are served as they come, which an administrator's request after request
never notices, since a pause fills it. When a flood has used it up, it fills slowly, and who waits gets his turn when
there is something in it again, the smallest request first. Whose last large request took no time to speak of, such as
a consumer of many partitions, never waits; and nobody waits for long while there is nobody else to be served.

Invariant: while others are served without a pause, what large requests take beyond what is free is at most `SHARE` of
the time, `SAVED_MS`, and one request; and a turn of the loop serves one of them.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from kpybroker.io.scheduler import Scheduler

LARGE_BYTES = 2 * 1024
SHARE = 0.05
SAVED_MS = 1_000.0
"""What the account holds when nobody sends large requests."""
OWED_MS = 250.0
"""What it is short of at most: nobody waits for longer than this takes to fill, if others do not go first."""
PAUSE_MS = 100.0
"""So long after the last large request the account fills as fast as time passes."""
LOOK_MS = 20.0
QUIET_EVENTS = 3
"""In `LOOK_MS`, so few connections are readable where nobody else wants to be served."""
FREE_MS = 1.0
FREE_FETCH_MS = 10.0
"""Of each request. Fetches of a thousand partitions take half of that, and some clients send them all day."""


class Waiting(Protocol):
    """A connection whose large request waits, or is served."""

    closed: bool
    is_light: bool
    """Whether its last large request took no more than is free."""

    def resume(self) -> None:
        """Try again."""


class LargeRequests:
    """The account, and who waits for it to fill."""

    def __init__(self, scheduler: Scheduler, events: Callable[[], int]) -> None:
        """``events``: how often a connection was found to be readable or writable, so far."""
        self._scheduler = scheduler
        self._clock: Callable[[], float] = scheduler.monotonic_ms
        self._left_ms = SAVED_MS
        self._at_ms = self._clock()
        self._last_ms = self._at_ms - PAUSE_MS
        """When the last large request was served."""
        self._queue: list[tuple[int, int, Waiting]] = []
        self._waiting: set[Waiting] = set()
        self._order = 0
        self._granted: Waiting | None = None
        self._events = events
        self._seen_events = 0
        self._is_timed = False
        self._had_turn = False
        """Whether this turn of the loop has served one already."""

    def may_start(self, connection: Waiting, size: int) -> bool:
        """Whether a large request may be served now; if not, its connection is resumed when it may."""
        if connection.is_light:
            return True
        if self._granted is connection:
            self._granted = None
            return True
        if connection in self._waiting:
            return False
        if not (self._queue or self._had_turn) and self._fill() > 0:
            self._take_turn()
            return True
        self._order += 1
        self._waiting.add(connection)
        heappush(self._queue, (size, self._order, connection))
        self._wake_later()
        return False

    def took(self, connection: Waiting, held_ms: float, free_ms: float = FREE_MS) -> None:
        """A large request held the loop for so long, of which some is not charged."""
        self._fill()
        connection.is_light = held_ms <= free_ms
        if not connection.is_light:
            self._left_ms = max(self._left_ms - held_ms + free_ms, -OWED_MS)
            self._last_ms = self._at_ms

    def _fill(self) -> float:
        now_ms = self._clock()
        paused_ms = 0.0 if self._queue else max(0.0, now_ms - max(self._at_ms, self._last_ms + PAUSE_MS))
        busy_ms = now_ms - self._at_ms - paused_ms
        self._left_ms = min(SAVED_MS, self._left_ms + paused_ms + busy_ms * SHARE)
        self._at_ms = now_ms
        return self._left_ms

    def _take_turn(self) -> None:
        self._had_turn = True
        self._scheduler.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._had_turn = False

    def _wake_later(self) -> None:
        """Look soon whether there is something in the account, or nobody else to be served."""
        if not self._is_timed:
            self._is_timed = True
            self._seen_events = self._events()
            self._scheduler.call_later(0.0 if self._fill() > 0 else LOOK_MS, self._next)

    def _next(self) -> None:
        self._is_timed = False
        has_time = self._fill() > 0 or self._events() - self._seen_events <= QUIET_EVENTS
        while self._queue and has_time:
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
