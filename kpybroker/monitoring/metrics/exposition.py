"""Everything a scrape shows, written on the loop in slices of a few milliseconds, between the requests of clients.

Writing in a thread would be no better: the interpreter runs one thread at a time and switches only every 5 ms, and the
loop would have to wait for that after each of its system calls. A request that comes while a text is being written gets
the same text.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kpybroker.config.broker import BrokerConfig
from kpybroker.monitoring.metrics import (
    askers,
    authorization,
    balancing,
    cleaning,
    clients,
    damage,
    lending,
    mirroring,
    newcomers,
    node_state,
    quotas,
    replication,
    telemetry,
)
from kpybroker.monitoring.metrics.event_loop import LoopTables
from kpybroker.monitoring.metrics.lag import LagTables
from kpybroker.monitoring.metrics.partitions import PartitionTables
from kpybroker.monitoring.metrics.quorum import QuorumTables
from kpybroker.monitoring.metrics.requests import RequestTables
from kpybroker.monitoring.metrics.shares import ShareTables
from kpybroker.monitoring.metrics.static_labels import static_labels
from kpybroker.monitoring.metrics.table import MetricsWriter, Table
from kpybroker.monitoring.metrics.window import SLICE_MS

if TYPE_CHECKING:
    from kpybroker.machines.balance.standing import BalancerStanding
    from kpybroker.monitoring.metrics.loop_watch import LoopWatch
    from kpybroker.monitoring.metrics.process import ProcessTables
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole
    from kpybroker.requests.server.listener import Server

SLICE_NS: Final = 2_000_000
PAUSE_S: Final = 0.002
"""The pause for other work after each slice."""


Standing = Callable[[], "BalancerStanding | None"]
"""The standing of this node's balancer; None where it does not run."""


class MetricSources(NamedTuple):
    """The sources of the tables, and the objects that are called every ten seconds."""

    tables: Sequence[Callable[[], Iterator[Table | None]]]
    turns: Sequence[Callable[[], object]]


def of_node(role: "Broker | ControllerRole", server: "Server", watch: "LoopWatch", standing: Standing) -> MetricSources:
    """The sources of a broker, or of a controller without one."""
    if role.is_controller_role:
        found = of_controller(cast("ControllerRole", role), server, watch)
    else:
        found = of_broker(cast("Broker", role), server, watch)
    return found._replace(tables=[*found.tables, lambda: balancing.tables(standing())])


def of_broker(broker: "Broker", server: "Server", watch: "LoopWatch") -> MetricSources:
    """The sources of a broker, a controller beside it included."""
    most: int = broker.config["kpybroker.metrics.max.partitions"]
    loop, requests, quorum = LoopTables(watch), RequestTables(watch.dispatchers), QuorumTables(broker)
    dispatcher, share_groups = watch.dispatchers[0], ShareTables(broker)
    return MetricSources(
        [
            *_of_tiered_storage(broker),
            lambda: node_state.tables(broker),
            loop.tables,
            quorum.tables,
            requests.tables,
            lambda: clients.tables(server),
            lambda: authorization.tables(broker.authorizer),
            lambda: newcomers.tables(server, dispatcher.newcomers),
            lambda: askers.tables(dispatcher.askers),
            lambda: quotas.tables(dispatcher.stage, server),
            share_groups.tables,
            lambda: telemetry.tables(broker),
            PartitionTables(broker, most).tables,
            LagTables(broker, server, most).tables,
            lambda: cleaning.tables(broker),
            lambda: damage.tables(broker),
            lambda: lending.tables(broker.leases),
            lambda: replication.tables(broker),
            lambda: mirroring.tables(broker.mirrors),
        ],
        [loop.turn, requests.turn, quorum.turn, share_groups.turn],
    )


def _of_tiered_storage(broker: "Broker") -> Iterator[Callable[[], Iterator[Table | None]]]:
    """The source of tiered storage, where it is configured."""
    remote_log = broker.remote_log
    if remote_log is not None:
        from kpybroker.monitoring.metrics.tiering import tables  # not without tiered storage

        yield lambda: tables(remote_log)


def of_controller(role: "ControllerRole", server: "Server", watch: "LoopWatch") -> MetricSources:
    """The sources of a node that is a controller and not a broker."""
    loop, requests, quorum = LoopTables(watch), RequestTables(watch.dispatchers), QuorumTables(role)
    return MetricSources(
        [
            loop.tables,
            quorum.tables,
            requests.tables,
            lambda: clients.tables(server),
            lambda: authorization.tables(role.authorizer),
        ],
        [loop.turn, requests.turn, quorum.turn],
    )


class Exposition:
    """The metrics of one node as text. Made at the first scrape, and closed with the node (`close`)."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, sources: MetricSources) -> None:
        self._loop = loop
        self._writer = MetricsWriter(
            config["kpybroker.metrics.dialects"], static_labels(config["kpybroker.metrics.static.labels"])
        )
        self._sources = sources
        self.reading = asyncio.Lock()
        """The tables remember what they have counted, so they are read by one at a time."""
        self._process: ProcessTables | None = None
        self._writing: asyncio.Task[list[bytes]] | None = None
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(SLICE_MS / 1000, self._turn)

    def _turn(self) -> None:
        self._timer = self._loop.call_later(SLICE_MS / 1000, self._turn)
        for turn in self._sources.turns:
            turn()

    def close(self) -> None:
        """Stop watching."""
        for each in (self._timer, self._writing):
            if each is not None:
                each.cancel()
        self._timer = None

    async def text(self) -> list[bytes]:
        """The metrics in Prometheus' text format 0.0.4, in pieces."""
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
            self._writing.add_done_callback(self._written)
        return await asyncio.shield(self._writing)

    def _written(self, _task: "asyncio.Task[list[bytes]]") -> None:
        self._writing = None

    async def _write(self) -> list[bytes]:
        process = await asyncio.to_thread(self._of_process)
        parts: list[bytes] = []
        async with self.reading:
            began_ns = perf_counter_ns()
            for piece in self.pieces(process):
                if piece:
                    parts.append(piece.encode("utf-8", "replace"))
                if perf_counter_ns() - began_ns >= SLICE_NS:
                    await asyncio.sleep(PAUSE_S)
                    began_ns = perf_counter_ns()
        return parts

    def _of_process(self) -> Sequence[Table]:
        """The tables of the process. Runs in a thread."""
        from kpybroker.monitoring.metrics.process import ProcessTables

        if self._process is None:
            self._process = ProcessTables()
        return self._process.tables()

    async def tables(self) -> Iterator[Table | None]:
        """All tables, read as the iterator is used; None is a place to pause."""
        return self._tables(await asyncio.to_thread(self._of_process))

    def _tables(self, process: Sequence[Table]) -> Iterator[Table | None]:
        for source in (*(tables() for tables in self._sources.tables), iter(process)):
            yield from source

    def pieces(self, process: Sequence[Table]) -> Iterator[str]:
        """The text in small pieces; an empty one is a place to pause."""
        self._writer.begin()
        for table in self._tables(process):
            if table is None:
                yield ""
            else:
                yield from self._writer.pieces(table)
