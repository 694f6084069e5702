"""Deadlines of sessions, joins and syncs: a heap that is refreshed lazily, so that a heartbeat costs two assignments.

A timer that moves to later stays where it is in the heap and is moved when it comes up. Nothing here fires by itself:
the coordinator asks what is due.

Invariant: a timer with a deadline has an entry in the heap that is not later than the deadline.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Final

_STALE_KEPT: Final = 64
"""The number of stale entries, beyond two for each live timer, that are kept before the heap is cleaned. An entry is
stale if its timer was cancelled or moved."""


class GroupTimer:
    """An action at a deadline: ``fire(*context, decision)``, given by the owner."""

    __slots__ = ("context", "deadline_ms", "fire", "queued_ms")

    def __init__(self, fire: Callable[..., None], *context: Any) -> None:
        self.fire = fire
        self.context = context
        self.deadline_ms: int | None = None
        self.queued_ms: int | None = None


class GroupTimers:
    """All timers of one shard."""

    __slots__ = ("_heap", "_live", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, GroupTimer]] = []
        self._live = 0
        self._number = 0

    def __len__(self) -> int:
        """How many timers have a deadline."""
        return self._live

    def set(self, timer: GroupTimer, deadline_ms: int) -> None:
        """Move a timer to this deadline, earlier or later."""
        if timer.deadline_ms is None:
            self._live += 1
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            self._push(timer, deadline_ms)

    def cancel(self, timer: GroupTimer) -> None:
        """Cancel a timer: it will not fire."""
        if timer.deadline_ms is not None:
            timer.deadline_ms = None
            self._live -= 1

    def pop_due(self, now_ms: int) -> GroupTimer | None:
        """Take the timer with the earliest deadline off the heap and clear its deadline; None if no deadline has
        come."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, timer = heappop(self._heap)
            if queued_ms != timer.queued_ms:
                continue  # an earlier entry was made since
            timer.queued_ms = None
            if timer.deadline_ms is None:
                continue
            if timer.deadline_ms > queued_ms:
                self._push(timer, timer.deadline_ms)
                continue
            timer.deadline_ms = None
            self._live -= 1
            return timer
        return None

    def next_deadline_ms(self) -> int | None:
        """The time to look again: never later than the next deadline, None if there is none."""
        return self._heap[0][0] if self._heap and self._live else None

    def _push(self, timer: GroupTimer, queued_ms: int) -> None:
        timer.queued_ms = queued_ms
        self._number += 1
        heappush(self._heap, (queued_ms, self._number, timer))
        if len(self._heap) > 2 * self._live + _STALE_KEPT:
            self._forget_stale()

    def _forget_stale(self) -> None:
        """Drop the entries of cancelled timers, which would otherwise stay for as long as clients chose their
        timeouts."""
        kept = []
        for entry in self._heap:
            queued_ms, _, timer = entry
            if queued_ms != timer.queued_ms:
                continue
            if timer.deadline_ms is None:
                timer.queued_ms = None
            else:
                kept.append(entry)
        heapify(kept)
        self._heap = kept
