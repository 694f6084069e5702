"""The schedule of the garbage collector in a broker's process: it rarely runs, and mostly when the loop is idle.

A broker's objects either are freed at once, by their reference counts, or live long: topics, logs, sessions, commits.
Scanning the latter again and again stops the loop (a full collection over 10 000 partitions takes 170 ms) and finds
nothing. So objects that survive a young collection are moved out of the collector's reach (``gc.freeze``), which costs
nothing, however many they are. When much was frozen and the loop has then been idle for a while, everything is unfrozen
and collected once, in case it contains cycles after all. Later that waits until the memory in use has grown, too: large
requests survive young collections, but they are freed.

Only for the broker's own process. A broker embedded in another process leaves the collector alone.
"""

import gc
import sys
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Final

from kpybroker.io.scheduler import Scheduler, Timer

YOUNG_OBJECTS: Final = 700
"""The most new objects before a young collection, which then takes a tenth of a millisecond or two."""
NEVER: Final = 1_000_000
CHECK_MS: Final = 5_000
IDLE_SHARE: Final = 0.03
IDLE_CHECKS: Final = 6
MUCH: Final = 75
"""The number of young collections after which the frozen objects are collected in the next idle period."""
TOO_MUCH: Final = 3_000
"""The number of young collections after which the frozen objects are collected even if the loop is never idle: two
million objects, if none of them was freed."""


class Collector:
    """The control of the garbage collector from `start` on. It runs on the loop's own thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        now_ns: Callable[[], int] = perf_counter_ns,
        worked_ns: Callable[[], int] = thread_time_ns,
        blocks: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        """``worked_ns`` returns the CPU time of this thread, ``blocks`` the number of blocks of memory in use."""
        self.scheduler = scheduler
        self._clocks = now_ns, worked_ns
        self._blocks = blocks
        self._blocks_before = 0
        """The blocks in use after the last full collection."""
        self.full_collections = 0
        self._frozen_since = 0
        """The number of young collections whose survivors were frozen since the last full collection."""
        self._idle_checks = 0
        self._timer: Timer | None = None
        self._seen_ns = self._worked_ns = 0

    def start(self) -> None:
        """Freeze everything that exists now. It is collected in the first idle period."""
        gc.freeze()
        self._frozen_since = MUCH
        self._blocks_before = self._blocks()
        gc.set_threshold(YOUNG_OBJECTS, NEVER, NEVER)
        self._was_idle()
        self._timer = self.scheduler.call_later(CHECK_MS, self._check)

    def stop(self) -> None:
        """Stop the periodic checks. Safe to call twice."""
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
        much = MUCH if has_time else TOO_MUCH
        if self._frozen_since >= much:
            is_first = has_time and not self.full_collections
            if is_first or self._blocks() - self._blocks_before >= YOUNG_OBJECTS * much:
                self._collect_all()
            elif has_time:
                self._frozen_since = 0  # what survived for a while was freed later, such as large requests
        self._timer = self.scheduler.call_later(CHECK_MS, self._check)

    def _was_idle(self) -> bool:
        """Whether the loop was idle since the last call."""
        now_ns, worked_ns = (clock() for clock in self._clocks)
        share = (worked_ns - self._worked_ns) / max(now_ns - self._seen_ns, 1)
        self._seen_ns, self._worked_ns = now_ns, worked_ns
        return share < IDLE_SHARE

    def _collect_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.full_collections += 1
        self._blocks_before = self._blocks()
        self._frozen_since = self._idle_checks = 0
