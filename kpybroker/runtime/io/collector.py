"""The schedule of the garbage collector in a broker's process: it rarely runs, and walks only what is young.

A broker's objects either are freed at once, by their reference counts, or live long: topics, logs, sessions, commits.
Scanning the latter again and again stops the loop (a full collection takes 30 ms in an empty node, 170 ms with 10 000
partitions) and finds nothing, since no request leaves a reference cycle behind. So objects that survive a young
collection are moved out of the collector's reach (``gc.freeze``), which costs nothing, however many they are.

Everything is unfrozen and collected once when the memory in use has doubled and stays so, in case it contains cycles
after all: a leak is bounded by that. It waits until the loop is idle, unless the memory has grown to four times.

Only for the broker's own process. A broker embedded in another process leaves the collector alone.
"""

import gc
import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Final

from kpybroker.runtime.io.scheduler import Scheduler, Timer

YOUNG_OBJECTS: Final = 700
"""The most new objects before a young collection, which then takes a tenth of a millisecond or two."""
NEVER: Final = 1_000_000
CHECK_MS: Final = 5_000
IDLE_SHARE: Final = 0.03
IDLE_CHECKS: Final = 6
FEW_BLOCKS: Final = 5_000_000
"""Memory that has grown by fewer blocks is not searched for cycles: large requests that are worked on take some
millions of them."""
IDLE_GROWTH: Final = 2
BUSY_GROWTH: Final = 4
"""The growth of the memory in use after which it is searched for cycles, while the loop is idle and at any time."""


class GarbageCollector:
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
        """The blocks in use at the start, or after the last full collection."""
        self._blocks_lately: deque[int] = deque(maxlen=IDLE_CHECKS)
        self.full_collections = 0
        self._idle_checks = 0
        self._timer: Timer | None = None
        self._seen_ns = self._worked_ns = 0

    def start(self) -> None:
        """Freeze everything that exists now."""
        gc.freeze()
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
        if gc.get_count()[1]:
            gc.freeze()
        self._idle_checks = self._idle_checks + 1 if self._was_idle() else 0
        self._blocks_lately.append(self._blocks())
        if self._has_grown():
            self._collect_all()
        self._timer = self.scheduler.call_later(CHECK_MS, self._check)

    def _has_grown(self) -> bool:
        """Whether the memory in use is much more than it was, and not only for the time of large requests."""
        if len(self._blocks_lately) < IDLE_CHECKS:
            return False
        blocks, before = min(self._blocks_lately), self._blocks_before
        growth = IDLE_GROWTH if self._idle_checks >= IDLE_CHECKS else BUSY_GROWTH
        return blocks - before >= FEW_BLOCKS and blocks >= growth * before

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
        self._idle_checks = 0
        self._blocks_lately.clear()
