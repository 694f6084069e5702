"""How fast something may go on, in bytes per second: whoever was too fast waits until the average is right again.

Not here: what waits. Time is an argument.
"""

from collections.abc import Callable

STANDSTILL_MS = 1_000.0
"""With a rate of nothing nothing goes on; so often it is asked whether there is another one."""


class Throttle:
    """Counts bytes against ``rate``, which may change at any time."""

    __slots__ = ("_rate", "_spent_until_ms")

    def __init__(self, rate: Callable[[], int]) -> None:
        """``rate`` gives bytes per second."""
        self._rate = rate
        self._spent_until_ms = 0.0

    def at_once(self, most: int) -> int:
        """How many bytes to take in one go: a tenth of a second's, ``most`` at most."""
        return max(min(most, self._rate() // 10), 1)

    def wait_ms(self, now_ms: float) -> float:
        """How long to wait before the next bytes; 0 for not at all, also where it would be less than a millisecond."""
        if self._rate() <= 0:
            return STANDSTILL_MS
        wait_ms = self._spent_until_ms - now_ms
        return wait_ms if wait_ms >= 1.0 else 0.0

    def count(self, count: int, now_ms: float) -> None:
        """So many bytes went through. What was not used before is no credit."""
        self._spent_until_ms = max(self._spent_until_ms, now_ms) + count * 1000.0 / max(self._rate(), 1)
