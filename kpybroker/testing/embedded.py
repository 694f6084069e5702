"""A node with the controls of a test: its clock, its faults, its files. It runs in the loop that it was started in.

It is a guest: it changes nothing in the process around it (no signals, limits, garbage collection, logging or loop
policy), and leaves nothing behind when it has stopped. The same class is used in the test's own loop, in a thread and
in a child process. Calls from outside go through `command`, with values that JSON can carry.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import Node
from kpybroker.runtime.io.limits import descriptors_for_logs, open_files
from kpybroker.testing.clock import ControlledScheduler
from kpybroker.testing.faults import BrokerFaults, FaultSpec
from kpybroker.testing.snapshot import Snapshot, clear_tree, read_tree, write_tree
from kpystorage.disk import Disk

IN_MEMORY = "/kpybroker"
LISTENER = "PLAINTEXT"
EVERY_INTERFACE = ("", "0.0.0.0", "::")
DEFAULTS: Mapping[str, str] = {
    "kpybroker.http.listener": "",
    "kpybroker.loop.lag.warn.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # When the clock is moved, nobody is to miss heartbeats or lose connections over it.
    "broker.session.timeout.ms": str(2**31 - 1),
    "connections.max.idle.ms": "-1",
    "metadata.max.idle.interval.ms": "0",
}
"""The configuration of a broker in a test, unless the test overrides it."""


class BrokerSettings(NamedTuple):
    """The settings for starting a broker. They can be written as JSON."""

    config: Mapping[str, str] = {}
    directory: str | None = None
    """The path of its log directory; None for a disk in memory."""
    host: str = "127.0.0.1"
    advertised_host: str | None = None
    port: int = 0
    protocols: tuple[str, ...] = ()
    """The security protocols that have listeners of their own beside PLAINTEXT; their names are those of the
    protocols."""


class EmbeddedNode:
    """A node in a test. Start it, use ``port``, stop it. It may be started again, with its data, on the same port."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.faults = BrokerFaults()
        self.port = settings.port
        self._ports: dict[str, int] = {}
        self.failure: str | None = None
        """The reason why the node gave up, if it did."""
        self._root = IN_MEMORY if settings.directory is None else os.path.abspath(settings.directory)
        self._disk: Disk | None = None
        self._node: Node | None = None
        self._scheduler: ControlledScheduler | None = None
        self._ahead_ms = 0.0

    # Life

    async def start(self) -> int:
        """Start the node. Return the port it serves. Raises ConfigError, StartRefused, StorageError or OSError."""
        config = self._config()
        disk = self._disk = self._disk or self._new_disk()
        loop = asyncio.get_running_loop()
        self._scheduler = ControlledScheduler(loop, ahead_ms=self._ahead_ms)
        self.failure = None
        self._node = Node(config, loop, self._failed, scheduler=self._scheduler, intercept=self.faults.intercept)
        try:
            await self._node.start(disk)
        except BaseException:
            await self.stop()
            raise
        self._ports = dict(self._node.ports)
        self.port = next(iter(self._ports.values()))
        return self.port

    async def stop(self) -> None:
        """Stop cleanly. Its files stay."""
        node, self._node = self._node, None
        if node is not None:
            self._remember_time()
            await node.stop()

    async def kill(self) -> None:
        """Stop as if the process had died: nothing is flushed, and no client or node is notified."""
        node, self._node = self._node, None
        if node is not None:
            self._remember_time()
            await node.abandon()

    def _failed(self, line: str) -> None:
        self.failure = line

    def _remember_time(self) -> None:
        if self._scheduler is not None:
            self._ahead_ms = self._scheduler.ahead_ms

    def _config(self) -> BrokerConfig:
        settings = self.settings
        advertised = settings.advertised_host or reachable(settings.host)
        own = {**DEFAULTS, "log.dirs": self._root}
        if "listeners" not in settings.config:
            ports = {LISTENER: self.port} | {name: self._ports.get(name, 0) for name in settings.protocols}
            for key, host in (("listeners", settings.host), ("advertised.listeners", advertised)):
                own[key] = ",".join(f"{name}://{address(host, port)}" for name, port in ports.items())
        return BrokerConfig.load(None, {**own, **settings.config})

    def _new_disk(self) -> Disk:
        if self.settings.directory is None:
            from kpystorage.memory_disk import MemoryDisk

            return MemoryDisk()
        from kpybroker.testing.unsynced_disk import UnsyncedDisk
        from kpystorage.real_file import Descriptors

        return UnsyncedDisk(Descriptors(descriptors_for_logs(open_files())))

    def forget_sockets(self) -> None:
        """Drop the sockets, in a forked child: the port and the connections belong to the parent."""
        node = self._node
        if node is not None and node.server is not None:
            node.server.forsake()

    # What a test asks for

    async def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call ``do_<name>``. The result can be written as JSON."""
        return await getattr(self, f"do_{name}")(**arguments)

    async def do_start(self) -> int:
        """Call `start`."""
        return await self.start()

    async def do_ports(self) -> dict[str, int]:
        """The ports of the listeners, by their names."""
        return self._ports

    async def do_advance(self, delta_ms: float) -> int:
        """Move the clock. Return its time afterwards, in milliseconds since the epoch."""
        await self._running().advance(delta_ms)
        return self._running().now_ms()

    async def do_now(self) -> int:
        """The time of the broker's clock, in milliseconds since the epoch."""
        return self._running().now_ms()

    async def do_add_fault(self, spec: list[Any]) -> int:
        """Add a fault. Return its number."""
        return self.faults.add(FaultSpec(*spec))

    async def do_remove_fault(self, number: int) -> None:
        """End a fault."""
        self.faults.rules.pop(number, None)

    async def do_clear_faults(self) -> None:
        """End all faults."""
        self.faults.rules.clear()

    async def do_hits(self, number: int) -> int:
        """The number of requests that a fault has affected."""
        rule = self.faults.rules.get(number)
        return 0 if rule is None else rule.hits

    async def do_cut(self) -> int:
        """Close all connections. Return how many there were."""
        node = self._node
        assert node is not None
        assert node.server is not None
        connections = list(node.server.connections)
        for connection in connections:
            connection.close()
        return len(connections)

    async def do_client_metrics(self) -> list[dict[str, Any]]:
        """The metrics that clients have pushed, client by client."""
        assert self._node is not None
        broker = self._node.broker
        if broker is None or not broker.has_telemetry:
            return []
        return [
            {
                "client_id": client.attributes["client_id"] or "",
                "instance_id": client.attributes["client_instance_id"],
                "software": [client.attributes["client_software_name"], client.attributes["client_software_version"]],
                "labels": list(client.series.client_labels),
                "measurements": [[each.metric, list(each.key.labels), each.value] for each in client.series],
            }
            for client in broker.telemetry.shown(broker.scheduler.monotonic_ms())
        ]

    async def do_compact(self, topic: str) -> str | None:
        """Compact all partitions of a topic that this node leads, as far as they are written. Return the reason if that
        failed."""
        node = self._node
        assert node is not None
        assert node.broker is not None
        compaction, held = node.broker.compaction, node.broker.replicas.topics.get(topic)
        if held is None:
            return f"no topic {topic}"
        if not held.config.compact:
            return f"topic {topic} is not compacted: its cleanup.policy is without compact"
        for replica in list(held.replicas.values()):
            over: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            compaction.compact(replica, over.set_result)
            line = await over
            if line is not None:
                return line
        return None

    async def do_restart(self, *, clean: bool) -> int:
        """Stop and start again with the same files on the same port. Return the port."""
        await (self.stop() if clean else self.kill())
        return await self.start()

    async def do_save(self, directory: str) -> None:
        """Write a snapshot into a new directory."""
        (await self.snapshot()).save(directory)

    async def do_restore(self, directory: str) -> int:
        """Call `restore` with the snapshot in a directory."""
        return await self.restore(Snapshot.load(directory))

    async def snapshot(self) -> Snapshot:
        """All files as they are now."""
        assert self._disk is not None
        self._remember_time()
        return Snapshot(dict(read_tree(self._disk, self._root)), self._ahead_ms)

    async def restore(self, snapshot: Snapshot) -> int:
        """Return to the state of the snapshot, on the same port. Return the port. Faults stay; the clock never goes
        back."""
        await self.kill()
        disk = self._disk = self._disk or self._new_disk()
        if disk.status(self._root) is None:
            for path in _with_parents(self._root):
                if disk.status(path) is None:
                    disk.make_directory(path)
        clear_tree(disk, self._root)
        write_tree(disk, self._root, snapshot.files)
        self._ahead_ms = max(self._ahead_ms, snapshot.ahead_ms)
        return await self.start()

    def _running(self) -> ControlledScheduler:
        if self._scheduler is None or self._node is None:
            raise RuntimeError("the broker is not running")
        return self._scheduler


def reachable(host: str) -> str:
    """The address by which this machine reaches a listener: loopback for one on every interface."""
    return "127.0.0.1" if host in EVERY_INTERFACE else host


def address(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _with_parents(path: str) -> list[str]:
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
