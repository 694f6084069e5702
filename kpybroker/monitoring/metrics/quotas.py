"""Client quotas: the rates of the shares that were used last, and how long their clients had to wait."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpybroker.monitoring.metrics.table import GAUGE, MetricRow, Table, kafka

if TYPE_CHECKING:
    from kpybroker.requests.dispatching.throttling import Throttling
    from kpybroker.requests.server.listener import Server

MOST_SHOWN: Final = 50
"""The most shares of each kind with a series of their own: those that were used last."""


def _table(kind: str, rate: str, about: str) -> Table:
    bean = f"kafka.server:type={kind},user=,client-id="
    stem = f"kafka_server_{kind.lower()}"
    throttle = "Milliseconds that a throttled client had to wait on average"
    return Table(
        ("user", "client_id"),
        (kafka(GAUGE, f"{stem}_{rate}", about, bean), kafka(GAUGE, f"{stem}_throttle_time", throttle, bean)),
    )


PRODUCE = _table("Produce", "byte_rate", "Bytes per second of the Produce requests of clients that share a quota")
FETCH = _table("Fetch", "byte_rate", "Bytes per second of the answers to clients that share a quota")
REQUEST = _table("Request", "request_time", "Percent of the loop's time that clients that share a quota use")
DELAYED = Table(
    (),
    (
        kafka(
            GAUGE,
            "kafka_server_throttled_connections",
            "Connections that are muted because of a quota",
            "kafka.server:type=Produce,name=queue-size",
        ),
    ),
)


def tables(throttling: "Throttling | None", server: "Server") -> Iterator[Table]:
    """The tables, while any quota is set."""
    if throttling is None:
        return
    now_ms = throttling.now_ms()
    for table, throttle in (
        (PRODUCE, throttling.produce),
        (FETCH, throttling.fetch),
        (REQUEST, throttling.request),
    ):
        yield table.with_rows(
            [
                MetricRow((each.share.user, each.share.client_id), (each.per_second, each.throttle_ms))
                for each in throttle.shown(now_ms, MOST_SHOWN)
            ]
        )
    yield DELAYED.with_rows([MetricRow((), (len(server.mutes),))])
