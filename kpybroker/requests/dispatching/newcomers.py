"""Clients that asked where the brokers are, and never connected to the advertised address.

A wrong advertised address looks like this from the broker: a client connects to its bootstrap address, learns the
advertised one, cannot reach it, and silently tries again. So a client that only looks around is remembered until it
does something else. A tool that lists topics and ends is gone before it counts as a suspect.

A client is identified by its host, client id and listener. Both tables are bounded; when they are full, the oldest
entries are forgotten. No request needs them to be served.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kpybroker.runtime.calls.askers import LONGEST_ID_CHARS

MOST_LOOKING = 256
MOST_SETTLED = 1024
SUSPECT_AFTER_MS = 10_000


class ClientIdentity(NamedTuple):
    """The identity of a client: its host, its client id, and the listener that it connects to."""

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
    """The clients that have only looked around. `seen` is called for the first request of each kind on a connection."""

    def __init__(self) -> None:
        self.looking: dict[ClientIdentity, Looking] = {}
        self._settled: dict[ClientIdentity, None] = {}

    def seen(self, host: str, client_id: str | None, listener: str, *, only_looks: bool, now_ms: float) -> None:
        """Note a client's request. ``only_looks``: it is one of those that every client begins with."""
        client = ClientIdentity(host, (client_id or "")[:LONGEST_ID_CHARS], listener)
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

    def suspects(self, connected: Iterable[tuple[str, str | None, str]], now_ms: float) -> dict[ClientIdentity, float]:
        """The clients that have looked around for long enough to be in trouble, and for how long, in ms.

        ``connected`` lists host, client id and listener of the connections that are open now.
        """
        if not self.looking:
            return {}
        for host, client_id, listener in connected:
            found = self.looking.get(ClientIdentity(host, (client_id or "")[:LONGEST_ID_CHARS], listener))
            if found is not None:
                found.last_ms = now_ms
        spans = {client: found.last_ms - found.first_ms for client, found in self.looking.items()}
        return {client: span for client, span in spans.items() if span >= SUSPECT_AFTER_MS}
