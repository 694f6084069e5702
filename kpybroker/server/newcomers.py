"""Clients that asked where the brokers are and never came back to the address they were told.

That is what a wrong advertised address looks like from the broker: a client connects by the address it was given,
learns the advertised one, cannot reach it, and tries again in silence. So who only looks around is remembered until
it does something else; a tool that lists topics and ends is gone before it counts.

A client is its host and client id. Both tables are bounded: of too many the oldest are forgotten, and nothing here is
ever needed to serve anybody.
"""

from collections.abc import Iterable
from typing import NamedTuple

MOST_LOOKING = 256
MOST_SETTLED = 1024
LONGEST_ID_CHARS = 100
SUSPECT_AFTER_MS = 10_000


class Client(NamedTuple):
    """Who: the host it connects from, what it calls itself, the listener it came in by."""

    host: str
    client_id: str
    listener: str


class Looking:
    """A client that has only looked around so far."""

    __slots__ = ("connections", "first_ms", "last_ms")

    def __init__(self, now_ms: float) -> None:
        self.first_ms = self.last_ms = now_ms
        self.connections = 0


class Newcomers:
    """Remembers who has only looked around. Hears of the first request of each kind on each connection."""

    def __init__(self) -> None:
        self.looking: dict[Client, Looking] = {}
        self._settled: dict[Client, None] = {}

    def seen(self, host: str, client_id: str | None, listener: str, *, only_looks: bool, now_ms: float) -> None:
        """A client sent a request; ``only_looks`` if it is one of those that every client begins with."""
        client = Client(host, (client_id or "")[:LONGEST_ID_CHARS], listener)
        if client in self._settled:
            return
        if not only_looks:
            self.looking.pop(client, None)
            if len(self._settled) >= MOST_SETTLED:
                del self._settled[next(iter(self._settled))]
            self._settled[client] = None
            return
        found = self.looking.get(client)
        if found is None:
            if len(self.looking) >= MOST_LOOKING:
                del self.looking[next(iter(self.looking))]
            found = self.looking[client] = Looking(now_ms)
        found.connections += 1
        found.last_ms = now_ms

    def suspects(self, connected: Iterable[tuple[str, str | None, str]], now_ms: float) -> dict[Client, float]:
        """How long, in ms, each client has been looking around that does so for long enough to be in trouble.

        ``connected``: host, client id and listener of the connections that are open now.
        """
        if not self.looking:
            return {}
        for host, client_id, listener in connected:
            found = self.looking.get(Client(host, (client_id or "")[:LONGEST_ID_CHARS], listener))
            if found is not None:
                found.last_ms = now_ms
        spans = {client: found.last_ms - found.first_ms for client, found in self.looking.items()}
        return {client: span for client, span in spans.items() if span >= SUSPECT_AFTER_MS}
