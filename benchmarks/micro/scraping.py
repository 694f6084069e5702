"""A whole scrape, from the counters to its text, as the loop writes it in slices."""

import asyncio
import logging
from collections.abc import Iterator

from benchmarks.micro.clock import Operation
from benchmarks.micro.handling import create_topic
from kpybroker.config.broker import BrokerConfig
from kpybroker.monitoring.metrics.exposition import Exposition, of_broker
from kpybroker.monitoring.metrics.loop_watch import LoopWatch
from kpybroker.monitoring.metrics.process import ProcessTables
from kpybroker.node.node import Node
from kpybroker.runtime.io.event_loop import new_event_loop
from kpystorage.memory_disk import MemoryDisk

PARTITIONS = 1000


def operations() -> Iterator[Operation]:
    logging.disable(logging.WARNING)
    loop = new_event_loop()
    settings = {"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0", "kpybroker.http.listener": ""}
    node = Node(BrokerConfig.load(None, settings), loop, lambda line: print(line))
    loop.run_until_complete(node.start(MemoryDisk()))
    assert node.broker is not None
    assert node.server is not None
    assert node.dispatcher is not None
    create_topic(node, PARTITIONS)
    while any(replica.leader is None for replica in node.broker.replicas):
        loop.run_until_complete(asyncio.sleep(0.01))
    watch = LoopWatch(loop, node.server.complaints, (node.dispatcher,), node.server.line, 0)
    exposition = Exposition(node.broker.config, loop, of_broker(node.broker, node.server, watch))
    process = ProcessTables().tables()
    try:
        yield Operation("a scrape", lambda: list(exposition.pieces(process)), PARTITIONS, "partition")
    finally:
        exposition.close()
        loop.run_until_complete(node.stop())
        loop.close()
