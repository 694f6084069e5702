"""Connections by listener and by the software that clients claim to be (KIP-511)."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import (
    CONFLUENT,
    COUNTER,
    GAUGE,
    NATIVE,
    STRIMZI,
    Measure,
    MetricRow,
    Name,
    Table,
    kafka,
    known_by,
)

if TYPE_CHECKING:
    from kpybroker.requests.server.listener import Server

MOST_SOFTWARE = 50
"""The most names and versions of clients with a series of their own: the most frequent ones. Clients can send any
name."""
OTHERS = ("(other)", "(other)")
"""The row of all others. No client can use this name."""
_BEAN = "kafka.server:type=socket-server-metrics"

CONNECTIONS = Table(
    ("listener", "networkProcessor"),
    (
        kafka(
            GAUGE,
            "kafka_server_socket_server_metrics_connection_count",
            "Open connections",
            f"{_BEAN},listener=,networkProcessor=",
            confluent="kafka_server_socketservermetrics_connection_count",
        ),
    ),
)
"""Connections by listener. The only network processor is number 0."""

SOFTWARE = Table(
    ("clientSoftwareName", "clientSoftwareVersion", "listener", "networkProcessor"),
    (
        Measure(
            GAUGE,
            "Open connections by the software that clients name",
            {
                STRIMZI: Name("kafka_server_socket_server_metrics_connections_software"),
                CONFLUENT: Name(
                    "kafka_server_socketservermetrics_connections",
                    ("client_software_name", "client_software_version", "listener", "network_processor"),
                ),
            },
            f"{_BEAN},clientSoftwareName=,clientSoftwareVersion=,listener=,networkProcessor=",
        ),
    ),
)

TOTALS = Table(
    (),
    (
        known_by(NATIVE, COUNTER, "kpybroker_connections_accepted_total", "Connections accepted"),
        known_by(NATIVE, COUNTER, "kpybroker_connections_refused_total", "Connections over a limit on connections"),
        known_by(
            NATIVE,
            GAUGE,
            "kpybroker_listeners_full",
            "Listeners whose next connections wait until others end (`max.connections`)",
        ),
        known_by(
            NATIVE, GAUGE, "kpybroker_replies_unread_bytes", "Bytes of replies in memory that clients do not read"
        ),
        known_by(NATIVE, GAUGE, "kpybroker_request_memory_used_bytes", "Memory of requests that are still arriving"),
        known_by(
            NATIVE, GAUGE, "kpybroker_request_memory_limit_bytes", "Limit of the memory that they may take together"
        ),
        kafka(
            GAUGE,
            "kafka_network_socketserver_memorypoolavailable",
            "Memory left for requests that are still arriving",
            "kafka.network:type=SocketServer,name=MemoryPoolAvailable",
        ),
        kafka(
            GAUGE,
            "kafka_network_socketserver_memorypoolused",
            "Memory of requests that are still arriving",
            "kafka.network:type=SocketServer,name=MemoryPoolUsed",
        ),
    ),
)


def tables(server: "Server") -> Iterator[Table | None]:
    """The tables of a server; None is a place to pause."""
    by_listener: Counter[str] = Counter()
    by_software: Counter[tuple[str, str, str]] = Counter()
    for number, connection in enumerate(list(server.connections)):
        by_listener[connection.client.listener_name] += 1
        by_software[*connection.client.software, connection.client.listener_name] += 1
        if number % 500 == 499:
            yield None
    listeners = sorted({*server.listener_names, *by_listener})
    yield CONNECTIONS.with_rows([MetricRow((name, "0"), (by_listener[name],)) for name in listeners])
    yield SOFTWARE.with_rows([MetricRow((*which, "0"), (count,)) for which, count in _most(by_software)])
    budget = server.budget
    used, limit = budget.used_bytes, budget.limit_bytes
    yield TOTALS.with_rows(
        [
            MetricRow(
                (),
                (
                    server.accepted_connections,
                    server.refused_connections,
                    server.full_listeners,
                    server.backlog.size_bytes,
                    used,
                    limit if limit >= 0 else None,
                    max(0, limit - used) if limit >= 0 else None,
                    used,
                ),
            )
        ]
    )


def _most(by_software: "Counter[tuple[str, str, str]]") -> Iterator[tuple[tuple[str, str, str], int]]:
    """The most frequent rows, and the others of each listener together."""
    others: Counter[str] = Counter()
    for number, (which, count) in enumerate(by_software.most_common()):
        if number < MOST_SOFTWARE:
            yield which, count
        else:
            others[which[2]] += count
    for listener, count in others.items():
        yield (*OTHERS, listener), count
