"""The connections that have not begun: their clients have not logged in, or have sent no request where nobody logs in.

When a place is needed (``max.connections``, that of a listener or of an address, or a descriptor), a newcomer gives it
up: of those that came first, one of the host with the most newcomers, the one without progress for longest. A newcomer
that makes progress has its place for a moment, so that a login can end while others come in crowds.

Invariant: a connection is a newcomer from its start until `admit` or `forget`.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from kpybroker.runtime.fairness.trait import Trait

if TYPE_CHECKING:
    from kpybroker.requests.server.connection import Connection
    from kpybroker.requests.server.frames import Dispatch
    from kpybroker.requests.server.outbox import Reply
    from kpybroker.runtime.calls.pending import Pending

STALLED_MS: Final = 200
"""A newcomer that has sent nothing for this time gives way."""
HANDSHAKE_MS: Final = 1_000
"""The same with TLS, whose handshake is not seen here."""
STALLED_OF_HOST_MS: Final = 500
"""The same for the limit of one address. There, other connections are refused meanwhile, as by Kafka."""
LONG_MS: Final = 2_000
"""A newcomer that came so long ago gives way although it sends something now and then."""
MOST_LOOKED_AT: Final = 64


class NodeNewcomers:
    """The newcomers of all listeners of a node."""

    def __init__(self) -> None:
        self._of_listener: dict[str, dict[Connection, float]] = {}
        """The times at which they came, in this order, by the names of the listeners."""
        self._of_host: dict[str, dict[Connection, None]] = {}

    def add(self, connection: "Connection", now_ms: float) -> None:
        """A connection was made."""
        client = connection.client
        self._of_listener.setdefault(client.listener_name, {})[connection] = now_ms
        self._of_host.setdefault(client.host, {})[connection] = None

    def admit(self, connection: "Connection") -> None:
        """Its client has logged in, or has sent a request, or it is gone. Safe to call twice."""
        client = connection.client
        of_listener = self._of_listener.get(client.listener_name)
        if of_listener is None or of_listener.pop(connection, None) is None:
            return
        of_host = self._of_host[client.host]
        del of_host[connection]
        if not of_host:
            del self._of_host[client.host]

    def count(self, listeners: Iterable[str]) -> int:
        """The newcomers of some listeners."""
        return sum(len(self._of_listener.get(name, ())) for name in listeners)

    def oldest(self, listeners: Iterable[str]) -> "Connection | None":
        """The newcomer that came first."""
        firsts = (next(iter(self._of_listener[name].items()), None) for name in listeners if name in self._of_listener)
        return min((each for each in firsts if each is not None), key=_since, default=(None, 0.0))[0]

    def slowest(self, listeners: Iterable[str], now_ms: float) -> "Connection | None":
        """The newcomer that gives way; None if there is none, or if all of them make progress."""
        slow: Connection | None = None
        most = 0
        for name in listeners:
            for connection, since_ms in islice(self._of_listener.get(name, {}).items(), MOST_LOOKED_AT):
                if not _is_slow(connection, since_ms, now_ms):
                    continue
                count = len(self._of_host[connection.client.host])
                if count > most or (
                    slow is not None and count == most and connection.last_active_ms < slow.last_active_ms
                ):
                    slow, most = connection, count
        return slow

    def slowest_of_host(self, host: str, listeners: Iterable[str], now_ms: float) -> "Connection | None":
        """The newcomer of an address that gives way to another one of it."""
        names = frozenset(listeners)
        for connection in islice(self._of_host.get(host, {}), MOST_LOOKED_AT):
            if connection.client.listener_name in names and now_ms - connection.last_active_ms >= STALLED_OF_HOST_MS:
                return connection
        return None


def _since(newcomer: "tuple[Connection, float]") -> float:
    return newcomer[1]


def _is_slow(connection: "Connection", since_ms: float, now_ms: float) -> bool:
    patience_ms = HANDSHAKE_MS if connection.client.security_protocol.endswith("SSL") else STALLED_MS
    return now_ms - connection.last_active_ms >= patience_ms or now_ms - since_ms >= LONG_MS


class FirstRequest:
    """The dispatcher of connections of which no login is demanded, until their first request. A greeting is none."""

    def __init__(self, dispatch: "Dispatch", newcomers: NodeNewcomers) -> None:
        self._dispatch = dispatch
        self._newcomers = newcomers

    def __call__(self, connection: "Connection", frame: memoryview) -> "Reply | Pending | None":
        """Serve one frame."""
        if not self._dispatch.trait_at(frame, 0).is_greeting:
            self._newcomers.admit(connection)
            if connection.dispatch is self:
                connection.dispatch = self._dispatch
        return self._dispatch(connection, frame)

    def trait_at(self, view: memoryview, position: int) -> Trait:
        """The trait of a request."""
        return self._dispatch.trait_at(view, position)
