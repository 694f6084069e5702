"""How many connections there may be (Kafka's ConnectionQuotas): in all, of one listener (KIP-402), of one address.

One address too many is refused. When a listener has as many as it may have, its next ones wait unaccepted until one of
it leaves. When there are too many in all, the next ones wait until another leaves; only the listener between brokers,
where it is not the only one, lets in then too, and the connection of another listener that was idle for the longest
time makes room.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class ConnectionLimits(NamedTuple):
    """How many in all and from one address; ``protected_listener`` waits for no other listener's clients.

    ``per_listener``: of the listeners that have a limit of their own.
    """

    most: int = 2**31 - 1
    most_per_ip: int = 2**31 - 1
    per_ip_overrides: Mapping[str, int] = {}
    protected_listener: str = ""
    per_listener: Mapping[str, int] = {}


class ConnectionQuotas:
    """Counts connections as they come and go."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.count = 0
        self._per_ip: dict[str, int] = {}
        self._per_listener: Counter[str] = Counter()

    def has_room(self, listener: str, listeners: int) -> bool:
        """Whether this listener, one of so many, may accept another connection."""
        own = self.limits.per_listener.get(listener)
        if own is not None and self._per_listener[listener] >= own:
            return False
        return self.count < self.limits.most or self.is_protected(listener, listeners)

    def is_protected(self, listener: str, listeners: int) -> bool:
        """Whether a listener is the one between brokers, and clients have others."""
        return listeners > 1 and listener == self.limits.protected_listener

    @property
    def excess(self) -> int:
        """How many connections have to leave."""
        return self.count - self.limits.most

    def may_add(self, host: str) -> bool:
        """Whether this address may have another connection."""
        return self._per_ip.get(host, 0) < self.limits.per_ip_overrides.get(host, self.limits.most_per_ip)

    def add(self, host: str, listener: str) -> None:
        """A connection was accepted."""
        self.count += 1
        self._per_listener[listener] += 1
        self._per_ip[host] = self._per_ip.get(host, 0) + 1

    def remove(self, host: str, listener: str) -> None:
        """A connection has closed."""
        self.count -= 1
        self._per_listener[listener] -= 1
        left = self._per_ip.get(host, 1) - 1
        if left > 0:
            self._per_ip[host] = left
        else:
            self._per_ip.pop(host, None)
