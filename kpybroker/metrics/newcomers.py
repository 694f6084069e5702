"""Clients that asked where the brokers are and never came back: what ``kpybroker doctor`` shows of a wrong address."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.metrics.table import GAUGE, NATIVE, Row, Table, known_by
from kpybroker.server.newcomers import MOST_LOOKING

if TYPE_CHECKING:
    from kpybroker.server.listener import Server
    from kpybroker.server.newcomers import Newcomers

MOST_SHOWN = 20
"""Clients with a series of their own, those that try for longest."""

WITHOUT_RETURN = Table(
    ("client_host", "client_id", "listener"),
    (
        known_by(
            NATIVE,
            GAUGE,
            "kpybroker_clients_without_return_seconds",
            "For how long a client has asked for metadata and for nothing else",
        ),
    ),
)


def tables(server: "Server", newcomers: "Newcomers") -> Iterator[Table]:
    """The table of those that are in trouble, as it seems."""
    connected: set[tuple[str, str | None, str]] = set()
    if newcomers.looking:
        for connection in server.connections:
            for known in connection.calls.values():
                connected.add((connection.client_host, known.call.client_id, connection.listener_name))
                break
            if len(connected) > MOST_LOOKING:
                break
    suspects = newcomers.suspects(connected, server.poller.now_ms)
    longest = sorted(suspects.items(), key=lambda each: -each[1])[:MOST_SHOWN]
    yield WITHOUT_RETURN.with_rows([Row(tuple(client), (span_ms / 1000,)) for client, span_ms in longest])
