"""When the garbage collector of a broker's process works: hardly ever, and mostly while nobody waits.

What a broker makes either dies at once, by its reference count, or lives long: topics, logs, sessions, commits. Walking
those again and again stops the loop (a full collection over 10 000 partitions for 170 ms) and finds nothing. So what
survived a young collection is frozen, which costs nothing however much it is; and when the loop has been idle for a
while after much was frozen, everything is thawed and looked at once, in case there were cycles in it after all.

For a process of our own only: a guest in somebody's process leaves its collector alone.
"""

import gc
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Final

from kpybroker.io.scheduler import Scheduler, Timer

YOUNG_OBJECTS: Final = 700
"""A young collection walks so many at most: a tenth of a millisecond or two."""
NEVER: Final = 1_000_000
CHECK_MS: Final = 5_000
IDLE_SHARE: Final = 0.03
IDLE_CHECKS: Final = 6
MUCH: Final = 75
"""Young collections whose survivors are looked at again when there is time."""
TOO_MUCH: Final = 3_000
"""Those of so many are looked at even if there is never time: two million objects, if nothing of them went."""


class Collector:
    """Keeps the collector quiet from `start` on. On the loop's own thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        now_ns: Callable[[], int] = perf_counter_ns,
        worked_ns: Callable[[], int] = thread_time_ns,
    ) -> None:
        """``worked_ns`` is the time that this thread has computed for."""
        self.scheduler = scheduler
        self._clocks = now_ns, worked_ns
        self.full_collections = 0
        self._frozen_since = 0
        """Young collections whose survivors were frozen since everything was looked at."""
        self._idle_checks = 0
        self._timer: Timer | None = None
        self._seen_ns = self._worked_ns = 0

    def start(self) -> None:
        """Nobody waits for cycles in what exists by now: that is looked at when there is time."""
        gc.freeze()
        self._frozen_since = MUCH
        gc.set_threshold(YOUNG_OBJECTS, NEVER, NEVER)
        self._was_idle()
        self._timer = self.scheduler.call_later(CHECK_MS, self._check)

    def stop(self) -> None:
        """No more of it. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        survived = gc.get_count()[1]
        if survived:
            gc.freeze()
            self._frozen_since += survived
        self._idle_checks = self._idle_checks + 1 if self._was_idle() else 0
        has_time = self._idle_checks >= IDLE_CHECKS
        if self._frozen_since >= (MUCH if has_time else TOO_MUCH):
            self._collect_all()
        self._timer = self.scheduler.call_later(CHECK_MS, self._check)

    def _was_idle(self) -> bool:
        """Since it was last asked."""
        now_ns, worked_ns = (clock() for clock in self._clocks)
        share = (worked_ns - self._worked_ns) / max(now_ns - self._seen_ns, 1)
        self._seen_ns, self._worked_ns = now_ns, worked_ns
        return share < IDLE_SHARE

    def _collect_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.full_collections += 1
        self._frozen_since = self._idle_checks = 0
