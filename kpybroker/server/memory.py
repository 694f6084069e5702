"""The budget for request bodies that are still arriving (Kafka's ``queued.max.request.bytes``).

A body's buffer grows as its bytes arrive, so a declared size alone costs nothing. When the sum of all growing
bodies reaches the limit, a body that wants to grow waits, except the oldest one, which may always go on: so there is
progress, and the excess is bounded by one request (``socket.request.max.bytes``).
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class _Waiting(NamedTuple):
    more_bytes: int
    resume: Callable[[], object]


class MemoryBudget:
    """Bytes held by incomplete request bodies, over all connections. ``limit_bytes`` < 0: no limit."""

    def __init__(
        self, limit_bytes: int, call_soon: Callable[[Callable[[], object]], object], pressed: Callable[[], object]
    ) -> None:
        """``call_soon`` defers a resumption; ``pressed`` is called when somebody begins to wait and nobody did."""
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._call_soon = call_soon
        self._pressed = pressed
        self._held: dict[Any, int] = {}
        self._waiting: dict[Any, _Waiting] = {}

    @property
    def is_short(self) -> bool:
        """Somebody waits for memory: nobody should read much more than is needed to go on."""
        return bool(self._waiting)

    def owners(self) -> list[Any]:
        """Who holds memory or waits for it."""
        return list(self._held | self._waiting)

    def grow(self, owner: Any, total_bytes: int, resume: Callable[[], object]) -> bool:
        """Whether ``owner`` may hold ``total_bytes`` now; if not, ``resume`` is called once it should ask again."""
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
        """``owner``'s body is complete or its connection gone; those who waited ask again, as far as there is room."""
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
