"""The time at which each transactional id is due for a check: one entry each, on the monotonic clock.

The coordinator decides what to do then, so an entry may be too early but not too late.
"""

from heapq import heappop, heappush


class TransactionTimers:
    """At most one deadline for each transactional id."""

    __slots__ = ("_deadlines", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._deadlines: dict[str, int] = {}

    def __len__(self) -> int:
        """How many ids have a deadline."""
        return len(self._deadlines)

    def set(self, transactional_id: str, deadline_ms: int) -> None:
        """Set the id's deadline, unless it already has an earlier one."""
        known_ms = self._deadlines.get(transactional_id)
        if known_ms is None or deadline_ms < known_ms:
            self._deadlines[transactional_id] = deadline_ms
            heappush(self._heap, (deadline_ms, transactional_id))

    def pop_due(self, now_ms: int) -> str | None:
        """Take the id with the earliest deadline and clear its deadline; None if no deadline has come."""
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, transactional_id = heappop(self._heap)
            if self._deadlines.get(transactional_id) == deadline_ms:
                del self._deadlines[transactional_id]
                return transactional_id
        return None

    def next_deadline_ms(self) -> int | None:
        """The time to look again: never later than the next deadline, None if there is none."""
        return self._heap[0][0] if self._heap and self._deadlines else None
