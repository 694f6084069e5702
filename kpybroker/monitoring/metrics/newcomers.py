"""Clients that asked where the brokers are and never came back: for ``kpybroker doctor``, a sign of a wrong address."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import GAUGE, NATIVE, MetricRow, Table, known_by
from kpybroker.requests.dispatching.newcomers import MOST_LOOKING

if TYPE_CHECKING:
    from kpybroker.requests.dispatching.newcomers import Newcomers
    from kpybroker.requests.server.listener import Server

MOST_SHOWN = 20
"""The most clients with a series of their own: those that have tried for longest."""

WITHOUT_RETURN = Table(
    ("client_host", "client_id", "listener"),
    (
        known_by(
            NATIVE,
            GAUGE,
            "kpybroker_clients_without_return_seconds",
            "Seconds for which a client has asked for metadata and nothing else",
        ),
    ),
)


def tables(server: "Server", newcomers: "Newcomers") -> Iterator[Table]:
    """The table of the clients that seem to be in trouble."""
    connected: set[tuple[str, str | None, str]] = set()
    if newcomers.looking:
        for connection in server.connections:
            for known in connection.client.calls.values():
                connected.add((connection.client.host, known.call.client_id, connection.client.listener_name))
                break
            if len(connected) > MOST_LOOKING:
                break
    suspects = newcomers.suspects(connected, server.poller.now_ms)
    longest = sorted(suspects.items(), key=lambda each: -each[1])[:MOST_SHOWN]
    yield WITHOUT_RETURN.with_rows([MetricRow(tuple(client), (span_ms / 1000,)) for client, span_ms in longest])
