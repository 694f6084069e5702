"""Time and messages of a simulation: everything happens in one order, which a seed decides.

Messages take their time, overtake one another, and some are lost; once it is calm none is.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

STEPS_AT_MOST = 200_000


class Network:
    """The heap of what happens next."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now_ms = 1_000_000
        self.is_calm = False
        self.after_each: Callable[[], None] = lambda: None
        """Called between any two events."""
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def later(self, delay_ms: int, happen: Callable[..., None], *arguments: Any) -> None:
        """Let something happen after this time."""
        self._number += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._number, happen, arguments))

    def deliver(self, receive: Callable[..., None], *arguments: Any) -> None:
        """Send a message: it arrives soon, late, or never."""
        chance = 1.0 if self.is_calm else self.rng.random()
        if chance < 0.03:
            return
        self.later(self.rng.randrange(500, 8_000) if chance < 0.06 else self.rng.randrange(1, 40), receive, *arguments)

    def run(self, until_ms: int | None = None) -> None:
        """Let happen what happens, until this time or to the end."""
        for _ in range(STEPS_AT_MOST):
            if not self._heap or (until_ms is not None and self._heap[0][0] > until_ms):
                return
            self.now_ms, _, happen, arguments = heappop(self._heap)
            happen(*arguments)
            self.after_each()
        raise AssertionError("It never ends")
