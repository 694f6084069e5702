"""The limits on the number of connections (Kafka's ConnectionQuotas): in all, of a listener (KIP-402), of an address.

They count connections of clients; those to the listeners of a controller have limits of their own, as in Kafka.

A connection above its address's limit is refused. When a listener has reached its limit, its next connections wait
unaccepted until one of its connections closes, or gives way (`kpybroker.requests.server.newcomers`). When the limit on
all connections is reached, the next ones wait until any other closes. The exception is the listener between brokers, if
there are other listeners: it still accepts, and the connection of another listener that has been idle for the longest
time is closed.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class ConnectionLimits(NamedTuple):
    """The limits. ``most`` is for all connections, ``most_per_ip`` for those of one address.

    ``protected_listener`` never waits for connections of other listeners to close. ``per_listener`` holds the limits of
    the listeners that have their own.
    """

    most: int = 2**31 - 1
    most_per_ip: int = 2**31 - 1
    per_ip_overrides: Mapping[str, int] = {}
    protected_listener: str = ""
    per_listener: Mapping[str, int] = {}


class ConnectionQuotas:
    """The numbers of open connections, and whether another may be opened."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.count = 0
        self._per_ip: dict[str, int] = {}
        self._per_listener: Counter[str] = Counter()

    def has_room(self, listener: str, listeners: int) -> bool:
        """Whether this listener may accept another connection; ``listeners`` is the number of open listeners."""
        if self.is_full(listener):
            return False
        return self.count < self.limits.most or self.is_protected(listener, listeners)

    def is_full(self, listener: str) -> bool:
        """Whether this listener has as many connections as its own limit allows."""
        own = self.limits.per_listener.get(listener)
        return own is not None and self._per_listener[listener] >= own

    def is_protected(self, listener: str, listeners: int) -> bool:
        """Whether this is the listener between brokers, and there are other listeners for clients."""
        return listeners > 1 and listener == self.limits.protected_listener

    @property
    def excess(self) -> int:
        """The number of connections above the limit; 0 or less if there are none."""
        return self.count - self.limits.most

    def may_add(self, host: str) -> bool:
        """Whether this address may have another connection."""
        return self._per_ip.get(host, 0) < self.limits.per_ip_overrides.get(host, self.limits.most_per_ip)

    def add(self, host: str, listener: str) -> None:
        """Count a connection that was accepted."""
        self.count += 1
        self._per_listener[listener] += 1
        self._per_ip[host] = self._per_ip.get(host, 0) + 1

    def remove(self, host: str, listener: str) -> None:
        """Count a connection that has closed."""
        self.count -= 1
        self._per_listener[listener] -= 1
        left = self._per_ip.get(host, 1) - 1
        if left > 0:
            self._per_ip[host] = left
        else:
            self._per_ip.pop(host, None)
