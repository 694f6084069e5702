"""Work over everything that a shard keeps, such as an expiry: done in slices, between other inputs.

A slice is due a moment after each decision while there is work, so a sweep ends soon and never blocks the loop.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kpybroker.machines.coordination.decision import CoordinatorDecision

PAUSE_MS: Final = 1


class Sweep:
    """One pass over many keys: names of groups, transactional ids, share partitions."""

    __slots__ = ("keys", "visit")

    def __init__(self, keys: Iterable[Any], visit: Callable[..., bool]) -> None:
        self.keys = deque(keys)
        self.visit = visit
        """``visit(shard, key, decision)`` returns whether it is done with the key. If not, the next slice begins with
        it."""


class Sweeps:
    """The sweeps of one shard, done one after the other."""

    __slots__ = ("due_ms", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Sweep] = deque()
        """The first one may have begun."""
        self.due_ms = 0
        """The time when the next slice is due, if a sweep waits."""

    def begin(self, keys: Iterable[Any], visit: Callable[..., bool]) -> Sweep:
        """Begin a sweep after those that wait."""
        sweep = Sweep(keys, visit)
        self.waiting.append(sweep)
        return sweep

    def sooner(self, deadline_ms: int | None) -> int | None:
        """This deadline, or that of the next slice if it is earlier."""
        if self.waiting and (deadline_ms is None or deadline_ms > self.due_ms):
            return self.due_ms
        return deadline_ms

    def advance(
        self, shard: Any, decision: CoordinatorDecision[Any], work_at_once: int, work_of: Callable[[Any], int]
    ) -> None:
        """Do one slice: until the work is worth ``work_at_once``, or the decision is full. ``work_of`` weighs a key."""
        work = 0
        while self.waiting and work < work_at_once and not decision.is_full:
            sweep = self.waiting[0]
            if not sweep.keys:
                self.waiting.popleft()
                continue
            key = sweep.keys.popleft()
            work += work_of(key)
            if not sweep.visit(shard, key, decision):
                sweep.keys.appendleft(key)
