"""The token bucket of controller mutations (KIP-599, Kafka's ``TokenBucket``), with the same arithmetic.

It fills at the quota's rate up to the burst, which is the quota over all windows. A request that finds tokens may take
more than there are; until the debt is paid, the bucket is negative.
"""

from kpybroker.machines.quotas.rate import DEFAULT_WINDOWS, MOST_THROTTLE_MS, QuotaWindows
from kpybroker.machines.quotas.rounding import rounded


class TokenBucket:
    """Tokens, one for each partition that is created or deleted."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: QuotaWindows = DEFAULT_WINDOWS) -> None:
        self._windows = windows
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def tokens(self, rate: float, now_ms: int) -> float:
        """The tokens now, at this quota."""
        number, size_ms = self._windows
        burst = number * (size_ms / 1000.0) * rate
        if self._updated_ms is None:
            self._tokens = burst  # the bucket of a client that was not seen before is full
        else:
            self._tokens = min(burst, self._tokens + rate * ((now_ms - self._updated_ms) / 1000.0))
        self._updated_ms = now_ms
        return self._tokens

    def take(self, amount: float, rate: float, now_ms: int) -> float:
        """Take tokens. Return the number that is left, which may be negative."""
        number, size_ms = self._windows
        self._tokens = min(number * (size_ms / 1000.0) * rate, self.tokens(rate, now_ms) - amount)
        return self._tokens


def bucket_throttle_ms(tokens: float, rate: float) -> int:
    """The time until a bucket has no debt any more (``ControllerMutationQuotaManager.throttleTimeMs``)."""
    return min(rounded(-tokens / rate * 1000), MOST_THROTTLE_MS) if tokens < 0 else 0
