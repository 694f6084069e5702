"""The rate of something over sliding windows (Kafka's ``Rate`` with its ``SampledStat``), with the same arithmetic.

A rate has at most one sample more than there are windows; the oldest one is used again. The elapsed time is at least
all windows but one. So a client that begins may send a burst before its rate reaches its quota.
"""

from typing import Final, NamedTuple

MOST_THROTTLE_MS: Final = 2**31 - 1
"""The longest time that a response has room for."""


class QuotaWindows(NamedTuple):
    """The windows of a quota: ``quota.window.num`` and ``quota.window.size.seconds``."""

    number: int = 11
    size_ms: int = 1_000


DEFAULT_WINDOWS: Final = QuotaWindows()


class _Sample:
    """The amount that was recorded from a start on."""

    __slots__ = ("last_event_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Begin again."""
        self.value = 0.0
        self.start_ms = self.last_event_ms = now_ms


class Rate:
    """An amount per second."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: QuotaWindows = DEFAULT_WINDOWS) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Add an amount. A negative one takes back what was recorded before."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._windows.size_ms:
            sample = self._next_sample(now_ms)
        sample.value += amount
        sample.last_event_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        self._forget_old(now_ms)
        total = 0.0
        for sample in self._samples:
            total += sample.value
        return total / (self.elapsed_ms(now_ms) / 1000.0)

    def elapsed_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured (``Rate.windowSize``)."""
        self._forget_old(now_ms)
        samples, (number, size_ms) = self._samples, self._windows
        if not samples:
            samples.append(_Sample(now_ms))
        elapsed_ms = now_ms - min(sample.start_ms for sample in samples)
        whole_windows = int(elapsed_ms / size_ms)
        if whole_windows < number - 1:
            elapsed_ms += (number - 1 - whole_windows) * size_ms
        return max(elapsed_ms, 1)

    def _next_sample(self, now_ms: int) -> _Sample:
        samples = self._samples
        self._current = (self._current + 1) % (self._windows.number + 1)
        if self._current >= len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        return samples[self._current]

    def _forget_old(self, now_ms: int) -> None:
        number, size_ms = self._windows
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= number * size_ms:
                sample.reset(now_ms)
