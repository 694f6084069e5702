"""Everything a scrape shows, written on the loop in slices of a few milliseconds, between the requests of clients.

Writing in a thread would be no better: the interpreter lets one thread run, and takes it away only every 5 ms, at each
system call of the loop anew. Who asks while a text is being written gets the same one.
"""

import asyncio
from collections.abc import Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from kpybroker.metrics import cleaning, clients, newcomers, replication
from kpybroker.metrics.lag import LagTables
from kpybroker.metrics.node_state import NodeTables
from kpybroker.metrics.partitions import PartitionTables
from kpybroker.metrics.quorum import QuorumTables
from kpybroker.metrics.requests import RequestTables
from kpybroker.metrics.static_labels import static_labels
from kpybroker.metrics.table import Table, Writer
from kpybroker.metrics.window import SLICE_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kpybroker.broker import Broker
    from kpybroker.metrics.loop_watch import LoopWatch
    from kpybroker.metrics.process import ProcessTables

SLICE_NS: Final = 2_000_000
PAUSE_S: Final = 0.002
"""For the others, after each slice."""


class Exposition:
    """The metrics of one broker as text. Made at the first scrape, `close`d with the node."""

    def __init__(self, broker: "Broker", watch: "LoopWatch") -> None:
        config = broker.config
        most: int = config["kpybroker.metrics.max.partitions"]
        self._loop = watch.loop
        self._writer = Writer(
            config["kpybroker.metrics.dialects"], static_labels(config["kpybroker.metrics.static.labels"])
        )
        self._broker = broker
        self._server = broker.server
        self._dispatcher = broker.dispatcher
        self._requests = RequestTables(watch.dispatchers)
        self._partitions = PartitionTables(broker, most)
        self._lag = LagTables(broker, most)
        self._node = NodeTables(broker, watch)
        self._quorum = QuorumTables(broker)
        self._process: ProcessTables | None = None
        self._writing: asyncio.Task[list[bytes]] | None = None
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(SLICE_MS / 1000, self._turn)

    def _turn(self) -> None:
        self._timer = self._loop.call_later(SLICE_MS / 1000, self._turn)
        self._requests.turn()
        self._node.turn()
        self._quorum.turn()

    def close(self) -> None:
        """Stop looking."""
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
        began_ns = perf_counter_ns()
        for piece in self.pieces(process):
            if piece:
                parts.append(piece.encode("utf-8", "replace"))
            if perf_counter_ns() - began_ns >= SLICE_NS:
                await asyncio.sleep(PAUSE_S)
                began_ns = perf_counter_ns()
        return parts

    def _of_process(self) -> "Sequence[Table]":
        """In a thread."""
        from kpybroker.metrics.process import ProcessTables

        if self._process is None:
            self._process = ProcessTables()
        return self._process.tables()

    def pieces(self, process: "Sequence[Table]") -> Iterator[str]:
        """The text in small pieces; an empty one is a place to pause."""
        self._writer.begin()
        for source in (
            self._node.tables(),
            self._quorum.tables(),
            self._requests.tables(),
            clients.tables(self._server),
            newcomers.tables(self._server, self._dispatcher.newcomers),
            self._partitions.tables(),
            self._lag.tables(),
            cleaning.tables(self._broker),
            replication.tables(self._broker),
            iter(process),
        ):
            for table in source:
                if table is None:
                    yield ""
                else:
                    yield from self._writer.pieces(table)
