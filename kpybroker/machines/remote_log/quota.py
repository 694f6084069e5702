"""The quotas of copies to the store and of reads from it, in bytes per second of one broker (KIP-956).

The average over the windows may not exceed the quota (Kafka: ``RLMQuotaManager``, ``SimpleRate``). Kafka asks once for
a segment and once for a read, so it exceeds the quota by a whole segment and then stands still. Here a copy asks for
each part that it writes, so it is smooth.
"""

from collections import deque
from typing import Final

from kpybroker.machines.quotas.rate import QuotaWindows, Rate
from kpybroker.machines.quotas.rounding import rounded

REMEMBERED_MS: Final = 60_000
"""The time over which throttle times are averaged, as with Kafka's metrics: two samples of 30 s."""
MOST_REMEMBERED: Final = 1_000


class SimpleRate(Rate):
    """An amount per second since the oldest sample, over one window at least."""

    __slots__ = ()

    def elapsed_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured (``SimpleRate.windowSize``)."""
        self._forget_old(now_ms)
        oldest_ms = min([sample.start_ms for sample in self._samples], default=now_ms)
        return max(now_ms - oldest_ms, self._windows.size_ms)


class RemoteLogQuota:
    """One of the two quotas, and the bytes that were used of it."""

    def __init__(self, bytes_per_second: int, windows: QuotaWindows) -> None:
        self.bytes_per_second = bytes_per_second
        """The quota."""
        self._rate = SimpleRate(windows)
        self._throttles: deque[tuple[int, int]] = deque(maxlen=MOST_REMEMBERED)

    def set_limit(self, bytes_per_second: int) -> None:
        """Change the quota. What was used before counts on."""
        self.bytes_per_second = bytes_per_second

    def throttle_ms(self, now_ms: int) -> int:
        """The time until the average is within the quota again, 0 if it is."""
        rate, limit = self._rate.per_second(now_ms), self.bytes_per_second
        if rate <= limit:
            return 0
        return max(1, rounded((rate - limit) / limit * self._rate.elapsed_ms(now_ms)))

    def use(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that are copied or read."""
        self._rate.record(size_bytes, now_ms)

    def waited(self, throttle_ms: int, now_ms: int) -> None:
        """Note that somebody was made to wait for this time, for metrics."""
        self._throttles.append((now_ms, throttle_ms))

    def mean_throttle_ms(self, now_ms: int) -> float:
        """The average of the recent throttle times, 0 if there are none (``...-throttle-time-avg``)."""
        recent = self._recent(now_ms)
        return sum(recent) / len(recent) if recent else 0.0

    def max_throttle_ms(self, now_ms: int) -> int:
        """The longest of the recent throttle times, 0 if there are none (``...-throttle-time-max``)."""
        return max(self._recent(now_ms), default=0)

    def _recent(self, now_ms: int) -> list[int]:
        while self._throttles and now_ms - self._throttles[0][0] >= REMEMBERED_MS:
            self._throttles.popleft()
        return [throttle_ms for _, throttle_ms in self._throttles]
