"""The budget for request bodies that are still arriving (Kafka's ``queued.max.request.bytes``).

A body's buffer grows as its bytes arrive, so a declared size alone costs nothing. When the sum of all growing
bodies reaches the limit, a body that needs more memory waits. The oldest one never waits, so there is always progress,
and the excess is bounded by one request (``socket.request.max.bytes``).
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class _Waiting(NamedTuple):
    more_bytes: int
    resume: Callable[[], object]


class MemoryBudget:
    """The bytes held by incomplete request bodies, over all connections. ``limit_bytes`` < 0 means no limit."""

    def __init__(
        self, limit_bytes: int, call_soon: Callable[[Callable[[], object]], object], pressed: Callable[[], object]
    ) -> None:
        """``call_soon`` defers a resumption; ``pressed`` is called when a body begins to wait and no other does."""
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._call_soon = call_soon
        self._pressed = pressed
        self._held: dict[Any, int] = {}
        self._waiting: dict[Any, _Waiting] = {}

    @property
    def is_short(self) -> bool:
        """Whether a body waits for memory. If so, connections should read only little at a time."""
        return bool(self._waiting)

    def owners(self) -> list[Any]:
        """The owners that hold memory or wait for it."""
        return list(self._held | self._waiting)

    def grow(self, owner: Any, total_bytes: int, resume: Callable[[], object]) -> bool:
        """Whether ``owner`` may hold ``total_bytes`` now. If not, ``resume`` is called when it should ask again."""
        more = total_bytes - self._held.get(owner, 0)
        if 0 <= self.limit_bytes < self.used_bytes + more and not self._is_oldest(owner):
            if not self._waiting:
                self._pressed()
            self._waiting[owner] = _Waiting(more, resume)
            return False
        self._held[owner] = total_bytes
        self.used_bytes += more
        return True

    def release(self, owner: Any) -> None:
        """Release the memory of ``owner``: its body is complete, or its connection has closed. The owners that wait are
        told to ask again, as far as there is room."""
        self.used_bytes -= self._held.pop(owner, 0)
        waiting = self._waiting
        if not waiting:
            return
        waiting.pop(owner, None)
        room = self.limit_bytes - self.used_bytes
        oldest = next(iter(self._held), None)
        if oldest in waiting:
            self._call_soon(waiting.pop(oldest).resume)
        while waiting:
            first = next(iter(waiting))
            more = waiting[first].more_bytes
            if more > room and self._held:
                break
            room -= more
            self._call_soon(waiting.pop(first).resume)

    def _is_oldest(self, owner: Any) -> bool:
        return next(iter(self._held), owner) is owner
