"""A rate limit in bytes per second: after going too fast, wait until the average is right again.

Not here: the waiting itself. Time is an argument.
"""

from collections.abc import Callable

STANDSTILL_MS = 1_000.0
"""The longest wait before the rate is read again: it may have been raised or removed. With a rate of 0 nothing may
pass."""


class ReplicaThrottle:
    """Counts bytes against ``rate``, which may change at any time."""

    __slots__ = ("_counted_rate", "_rate", "_spent_until_ms")

    def __init__(self, rate: Callable[[], int]) -> None:
        """``rate`` returns bytes per second."""
        self._rate = rate
        self._counted_rate = 1
        """The rate by which the bytes so far were counted."""
        self._spent_until_ms = 0.0

    def at_once(self, most: int) -> int:
        """How many bytes to take in one go: those of a tenth of a second, but not more than ``most``."""
        return max(min(most, self._rate() // 10), 1)

    def wait_ms(self, now_ms: float) -> float:
        """How long to wait before the next bytes; 0 also if it would be less than a millisecond."""
        if self._rate() <= 0:
            return STANDSTILL_MS
        self._follow_rate(now_ms)
        wait_ms = self._spent_until_ms - now_ms
        return min(wait_ms, STANDSTILL_MS) if wait_ms >= 1.0 else 0.0

    def count(self, count: int, now_ms: float) -> None:
        """Count bytes that have passed. Unused time gives no credit."""
        self._follow_rate(now_ms)
        self._spent_until_ms = max(self._spent_until_ms, now_ms) + count * 1000.0 / self._counted_rate

    def _follow_rate(self, now_ms: float) -> None:
        """Shorten the wait for bytes that have passed if the rate was raised since. A lower one is for later bytes."""
        rate = max(self._rate(), 1)
        if rate > self._counted_rate:
            early_ms = max(self._spent_until_ms - now_ms, 0.0)
            self._spent_until_ms = now_ms + early_ms * self._counted_rate / rate
        self._counted_rate = rate
