"""A cluster of whole nodes in one loop, in a thread of the test: real sockets and disks, one process."""

import asyncio
import random
import shutil
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.hosts.quorum.scram_arguments import parse_scram
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.node.node import Node
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from oracle import free_port
from support.waiting import as_written, eventually

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"
PATIENCE_S = 30.0
SETTINGS = {
    "kpybroker.http.listener": "",
    "kpybroker.loop.lag.warn.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


class RunningCluster:
    """``roles`` of the nodes 1, 2, ... ; those with a controller are the static voters."""

    def __init__(
        self, directory: Path, roles: list[str], settings: Mapping[str, str] = {}, scram: Sequence[str] = ()
    ) -> None:
        """``scram``: the users that every node is formatted with, as texts of ``--add-scram``.

        If ``settings`` name INTERNAL as the listener for brokers, each broker has it beside PLAINTEXT.
        """
        self.loop = asyncio.new_event_loop()
        self.failures: list[str] = []
        self.nodes: dict[int, Node] = {}
        self.ports = {node_id: (free_port(), free_port()) for node_id in range(1, len(roles) + 1)}
        self.internal_ports = {node_id: free_port() for node_id in self.ports}
        self._settings = settings
        self._scram = scram
        self._directory = directory
        self._roles = dict(enumerate(roles, 1))
        for node_id in self._roles:
            self._format(node_id)
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def config(self, node_id: int) -> BrokerConfig:
        """The configuration of a node."""
        roles = self._roles[node_id]
        broker_port, controller_port = self.ports[node_id]
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{broker_port}")
            if self._settings.get("inter.broker.listener.name") == "INTERNAL":
                listeners.append(f"INTERNAL://127.0.0.1:{self.internal_ports[node_id]}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
        voters = [f"{each}@127.0.0.1:{self.ports[each][1]}" for each, its in self._roles.items() if "controller" in its]
        own = {
            "node.id": str(node_id),
            "process.roles": roles,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self._directory / str(node_id)),
        }
        return BrokerConfig.load(None, {**SETTINGS, **own, **self._settings})

    def _format(self, node_id: int) -> None:
        path = str(self._directory / str(node_id))
        levels = choose_levels(None, {}, dynamic_quorum=False)
        users = parse_scram(self._scram, levels[metadata_version.FEATURE_NAME], random.Random(node_id))
        formatting = Formatting(CLUSTER_ID, node_id, [path], path, levels, None, users)
        Path(path).mkdir()
        format_directories(RealDisk(Descriptors(16)), formatting, random.Random(node_id), int(time.time() * 1000))

    # Life

    def start(self, *node_ids: int) -> None:
        """Start nodes, all at once, and wait until they serve, and each knows of all."""

        async def run() -> None:
            await asyncio.wait_for(asyncio.gather(*[self._start(node_id) for node_id in node_ids]), PATIENCE_S)

        asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S * 2)
        brokers = {node_id for node_id, node in self.nodes.items() if node.broker is not None}

        def know_all() -> bool:
            return all(brokers <= node.broker.alive_brokers for node in self.nodes.values() if node.broker is not None)

        self.eventually(know_all, "knowing of all brokers")

    async def _start(self, node_id: int) -> None:
        node = self.nodes[node_id] = Node(self.config(node_id), self.loop, self.failures.append)
        await node.start(RealDisk(Descriptors(128)))

    def stop(self, *node_ids: int) -> None:
        """Stop nodes cleanly, all at once."""
        nodes = [self.nodes.pop(node_id) for node_id in node_ids]

        async def run() -> None:
            await asyncio.gather(*[node.stop() for node in nodes])

        asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S * 2)

    def kill(self, node_id: int) -> None:
        """End a node as the death of its process would."""
        node = self.nodes.pop(node_id)
        asyncio.run_coroutine_threadsafe(node.abandon(), self.loop).result(PATIENCE_S)

    def lose_disk(self, node_id: int) -> None:
        """Replace the disk of a node that does not run by an empty, formatted one."""
        shutil.rmtree(self._directory / str(node_id))
        self._format(node_id)

    def close(self) -> None:
        """End everything."""
        for node_id in list(self.nodes):
            self.kill(node_id)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE_S)
        self.loop.close()

    # Looking

    def call(self, function: Callable[[], Any]) -> Any:
        """Run on the loop and wait for the result."""

        async def run() -> Any:
            return function()

        return self.run(run())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Await on the loop; the result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    def eventually(self, condition: Callable[[], Any], what: str | None = None) -> Any:
        """Wait until something holds on the loop; what it was."""
        return eventually(lambda: self.call(condition), what or as_written(condition))

    @property
    def bootstrap_servers(self) -> str:
        """All brokers."""
        return ",".join(f"127.0.0.1:{port}" for node, (port, _) in self.ports.items() if "broker" in self._roles[node])

    def partition(self, topic: str, index: int = 0) -> Any:
        """The state of a partition in the newest metadata that any node has."""
        newest = max([node.image for node in self.nodes.values()], key=lambda image: image.next_offset)
        return newest.topics[topic].partitions[index]

    def wait_for_isr(self, topic: str, size: int, index: int = 0) -> Any:
        """Wait until a partition has ``size`` in-sync replicas, and a leader."""

        def has() -> Any:
            partition = self.partition(topic, index)
            return partition if len(partition.isr) == size and partition.leader >= 0 else None

        return self.eventually(has, f"an ISR of {size}")


@contextmanager
def cluster_of(
    directory: Path, roles: list[str], settings: Mapping[str, str] = {}, scram: Sequence[str] = ()
) -> Iterator[RunningCluster]:
    """A started cluster, which ends with the block."""
    cluster = RunningCluster(directory, roles, settings, scram)
    try:
        cluster.start(*range(1, len(roles) + 1))
        yield cluster
    finally:
        cluster.close()


COMBINED = "broker,controller"
