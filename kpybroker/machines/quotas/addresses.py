"""The quotas of addresses: new connections per second (KIP-612, Kafka's ``ConnectionQuotas``).

A connection above the quota does not count. It is kept unread, and closed after the time that is returned here.
"""

from ipaddress import ip_address

from kpybroker.machines.quotas.client_quotas import ClientQuotas, Share
from kpybroker.machines.quotas.rate import DEFAULT_WINDOWS, QuotaWindows, Rate
from kpybroker.machines.quotas.rounding import rounded
from kpybroker.machines.quotas.shares import Shares


class AddressRates:
    """The new connections of each address."""

    def __init__(self, quotas: ClientQuotas, windows: QuotaWindows = DEFAULT_WINDOWS) -> None:
        self._quotas = quotas
        self._windows = windows
        self._limits: dict[str | None, float] = {}
        self._shares: Shares[Rate] = Shares(lambda: Rate(windows))
        self.throttled = 0
        """The number of connections that were above their quota."""
        self.changed()

    def changed(self) -> None:
        """The quotas of addresses have changed."""
        self._limits = {None if text is None else plain(text): limit for text, limit in self._quotas.addresses.items()}

    @property
    def is_on(self) -> bool:
        """Whether any address has a quota."""
        return bool(self._limits)

    def throttle_ms(self, host: str, now_ms: int) -> int:
        """Count a new connection. Return 0 if it is within the quota, else the time after which it is closed."""
        address = plain(host)
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0
        rate = self._shares.of(Share("", address), now_ms)
        rate.record(1.0, now_ms)
        per_second = rate.per_second(now_ms)
        if per_second <= limit:
            return 0
        rate.record(-1.0, now_ms)
        self.throttled += 1
        return min(rounded((per_second - limit) / limit * rate.elapsed_ms(now_ms)), self._windows.size_ms)


def plain(text: str) -> str:
    """The usual text of an address, so that all ways to write it are the same."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
