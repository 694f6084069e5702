"""The budget for request bodies that are still arriving (Kafka's ``queued.max.request.bytes``).

A body's buffer grows as its bytes arrive, so a declared size alone costs nothing. When the sum of all growing
bodies reaches the limit, a body that wants to grow waits, except the oldest one, which may always go on: so there is
progress, and the excess is bounded by one request (``socket.request.max.bytes``).
"""

from collections.abc import Callable


class MemoryBudget:
    """Bytes held by incomplete request bodies, over all connections. ``limit_bytes`` < 0: no limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._held: dict[object, int] = {}
        self._waiting: dict[object, Callable[[], None]] = {}

    def grow(self, owner: object, total_bytes: int, resume: Callable[[], None]) -> bool:
        """Whether ``owner`` may hold ``total_bytes`` now; if not, ``resume`` is called once it should ask again."""
        held = self._held.get(owner, 0)
        more = total_bytes - held
        fits = self.limit_bytes < 0 or self.used_bytes + more <= self.limit_bytes
        oldest = next(iter(self._held), owner)
        if not fits and oldest is not owner:
            self._waiting[owner] = resume
            return False
        self._held[owner] = total_bytes
        self.used_bytes += more
        return True

    def release(self, owner: object) -> None:
        """``owner``'s body is complete or its connection gone; those who waited ask again."""
        self.used_bytes -= self._held.pop(owner, 0)
        self._waiting.pop(owner, None)
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting.values():
                resume()
