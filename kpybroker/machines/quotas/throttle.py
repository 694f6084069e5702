"""The time for which a client has to wait (``ClientQuotaManager``, ``ClientRequestQuotaManager``).

What a client uses is recorded first. If its rate is above its quota then, it waits until the rate would be at the
quota again. A share that nobody used for an hour is forgotten, and there are never more than `MOST_SHARES` of one kind.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kpybroker.machines.quotas.client_quotas import NO_LIMIT, ClientQuotas, Share
from kpybroker.machines.quotas.rate import DEFAULT_WINDOWS, MOST_THROTTLE_MS, QuotaWindows, Rate
from kpybroker.machines.quotas.rounding import rounded
from kpybroker.machines.quotas.shares import Shares

NANOSECONDS_TO_PERCENT: Final = 100.0 / 1_000_000_000


class ThrottleShare(NamedTuple):
    """A share as metrics show it."""

    share: Share
    per_second: float
    throttle_ms: float
    """The mean of the times for which its clients had to wait in the last windows."""


class _Used:
    """The rate of a share, and the waits of its clients."""

    __slots__ = ("rate", "throttles", "waited")

    def __init__(self, windows: QuotaWindows) -> None:
        self.rate = Rate(windows)
        self.waited = Rate(windows)
        self.throttles = Rate(windows)


class QuotaThrottle:
    """The rates of one kind of quota."""

    def __init__(
        self,
        kind: str,
        quotas: ClientQuotas,
        windows: QuotaWindows = DEFAULT_WINDOWS,
        most_ms: int = MOST_THROTTLE_MS,
    ) -> None:
        """``most_ms`` bounds the time that a client waits."""
        self.kind = kind
        self._quotas = quotas
        self._windows = windows
        self._most_ms = most_ms
        self._shares: Shares[_Used] = Shares(lambda: _Used(windows))

    def __len__(self) -> int:
        return len(self._shares)

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Record an amount. Return the time for which the client has to wait; 0 if it is within its quota."""
        found = self._quotas.find(self.kind, user, client_id)
        if found is None:
            return 0
        used = self._shares.of(found.share, now_ms)
        used.rate.record(amount, now_ms)
        return self._throttle_ms(used.rate, found.limit, now_ms)

    def _throttle_ms(self, rate: Rate, limit: float, now_ms: int) -> int:
        per_second = rate.per_second(now_ms)
        if per_second <= limit:
            return 0
        if limit <= 0:  # only ZooKeeper holds such quotas
            return 0 if limit else self._most_ms
        return min(rounded((per_second - limit) / limit * rate.elapsed_ms(now_ms)), self._most_ms)

    def note(self, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """Record an amount without consequences. A negative one takes back what was recorded."""
        found = self._quotas.find(self.kind, user, client_id)
        if found is not None:
            self._shares.of(found.share, now_ms).rate.record(amount, now_ms)

    def waits(self, user: str, client_id: str, throttle_ms: int, now_ms: int) -> None:
        """A client waits for this time because of this kind of quota; for metrics."""
        found = self._quotas.find(self.kind, user, client_id)
        if found is not None:
            used = self._shares.of(found.share, now_ms)
            used.waited.record(throttle_ms, now_ms)
            used.throttles.record(1, now_ms)

    def most_in_windows(self, user: str, client_id: str) -> float | None:
        """The amount that fits the quota over all windows but one; None without a quota
        (``maxValueInQuotaWindow``)."""
        found = self._quotas.find(self.kind, user, client_id)
        if found is None or found.limit == NO_LIMIT:
            return None
        return found.limit * (self._windows.number - 1) * (self._windows.size_ms / 1000.0)

    def shown(self, now_ms: int, most: int) -> Iterator[ThrottleShare]:
        """The shares that were used last, at most this many."""
        for share, used in self._shares.latest(most):
            throttles = used.throttles.per_second(now_ms)
            mean_ms = used.waited.per_second(now_ms) / throttles if throttles > 0 else 0.0
            yield ThrottleShare(share, used.rate.per_second(now_ms), mean_ms)
