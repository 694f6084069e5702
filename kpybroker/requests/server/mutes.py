"""Connections that are not served for a while, because their clients are above a quota (KIP-219).

One heap and one timer serve them all. A muted connection is not read, so it costs no CPU; it can close at any time.
"""

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import Scheduler, Timer

MOST_MUTED_MS: Final = 3_600_000
"""The longest time that a connection is muted. After an hour the quota has forgotten its client anyway."""


class Mute(Pending):
    """The end of the time for which a connection is muted. It holds back what comes behind it like an answer that is
    due, but nobody gets it."""

    __slots__ = ("_waiting", "is_cancelled", "until_ms")

    def __init__(self, until_ms: float, waiting: deque[Pending]) -> None:
        """``waiting`` are the answers that are due."""
        super().__init__()
        self.until_ms = until_ms
        self._waiting = waiting
        waiting.append(self)
        self.is_cancelled = False

    def go_last(self) -> None:
        """Let another answer pass, which the mute must not hold back."""
        self._waiting.remove(self)
        self._waiting.append(self)

    def cancel(self) -> None:
        """The connection has closed."""
        self.is_cancelled = True
        super().cancel()


class Mutes:
    """The connections that are muted, in the order in which they are served again."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._heap: list[tuple[float, int, Mute]] = []
        self._numbers = count()
        self._timer: Timer | None = None
        self._timer_ms = 0.0

    def __len__(self) -> int:
        return sum(not each.is_cancelled for _, _, each in self._heap)

    def mute(
        self, throttle_ms: int, present: Mute | None, waiting: deque[Pending], ended: Callable[[None], None]
    ) -> Mute:
        """A connection is muted from now on, after the answers that are ``waiting``. A mute that is ``present`` is
        prolonged. ``ended`` is called when it is over."""
        until_ms = self._scheduler.monotonic_ms() + min(throttle_ms, MOST_MUTED_MS)
        if present is not None:
            present.until_ms = max(present.until_ms, until_ms)
            return present
        mute = Mute(until_ms, waiting)
        mute.when_resolved(ended)
        self._put(mute)
        return mute

    def close(self) -> None:
        """End no mute any more."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _put(self, mute: Mute) -> None:
        heap = self._heap
        if len(heap) > 64 and sum(each.is_cancelled for _, _, each in heap) > len(heap) // 2:
            heap[:] = [each for each in heap if not each[2].is_cancelled]
            heapq.heapify(heap)
        heapq.heappush(heap, (mute.until_ms, next(self._numbers), mute))
        if self._timer is None or mute.until_ms < self._timer_ms:
            self._watch()

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer_ms = self._heap[0][0]
            self._timer = self._scheduler.call_later(max(self._timer_ms - self._scheduler.monotonic_ms(), 0), self._due)

    def _due(self) -> None:
        self._timer = None
        now_ms = self._scheduler.monotonic_ms()
        heap, due = self._heap, []
        while heap and heap[0][0] <= now_ms:
            _, number, mute = heapq.heappop(heap)
            if mute.is_cancelled:
                continue
            if mute.until_ms > now_ms:
                heapq.heappush(heap, (mute.until_ms, number, mute))
            else:
                due.append(mute)
        for mute in due:
            if not mute.is_cancelled:
                mute.resolve(None)
        self._watch()
