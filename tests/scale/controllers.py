"""Controllers as they run: the quorum's host with its metadata log on a disk, and frames between them in memory.

Requests and responses pass through the codec, so their bytes are counted and their encoding takes CPU time.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.hosts.quorum.first_start import configured_voters, identify
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.hosts.quorum.host import QuorumConfig, QuorumHost, QuorumIdentity, Timings
from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.reign import ControllerParts
from kpybroker.machines.controller.state import StaticSettings
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpywire import codec
from kpywire.messages.fetch import FetchRequest
from kpywire.messages.fetch_snapshot import FetchSnapshotRequest

from .meter import MeteredScheduler

FIRST_ID = 3001
LATENCY_MS = 1
"""The time that a frame is on its way."""
LISTENER = "CONTROLLER"
CLUSTER_ID = "c" * 22
OF_QUORUM = (FetchRequest, FetchSnapshotRequest)


class ControllerNode:
    """One controller: its directory always, its host while it runs."""

    def __init__(self, network: "ControllerNetwork", node_id: int) -> None:
        self.network = network
        self.id = node_id
        path = str(network.folder / str(node_id))
        Path(path).mkdir(parents=True, exist_ok=True)
        listener = {"listeners": f"{LISTENER}://localhost:{node_id}", "controller.listener.names": LISTENER}
        config = BrokerConfig.load(
            None,
            {
                "process.roles": "controller",
                "node.id": str(node_id),
                "log.dirs": path,
                "controller.quorum.voters": network.voters,
                **listener,
            },
        )
        disk, scheduler = RealDisk(), network.scheduler
        now_ms = scheduler.now_ms()
        if not any(Path(path).iterdir()):
            levels = choose_levels(None, {}, dynamic_quorum=False)
            format_directories(disk, Formatting(CLUSTER_ID, node_id, [path], path, levels, None), network.rng, now_ms)
        found = identify(config, disk, [path], path, network.rng, now_ms)
        self.directory = LogDirectory(path, disk, network.rng, network.failures.append, LogConfig())
        self.directory.open(now_ms)
        list(self.directory.recover())
        self.log = MetadataLog(self.directory, LogConfig(segment_bytes=1 << 30), now_ms)
        voters = configured_voters(config)
        self.host = QuorumHost(
            scheduler,
            self.log,
            QuorumIdentity(found.cluster_id, found.voter, voters, listener_name=LISTENER),
            ControllerParts(
                StaticSettings(node_id, configured_voters=tuple([voter.id for voter in voters])),
                BrokerConfigRules(config),
                network.rng,
                found.bootstrap_records,
                Timings(),
            ),
            QuorumConfig(),
            Connections(network),  # type: ignore[arg-type]
            network.failures.append,
        )
        self.is_up = True
        self.unanswered: dict[int, Callable[[Any], object]] = {}
        """The functions that take the answers to requests that are here, by the number of the request."""
        self.host.start()

    def end(self) -> None:
        """The process ends without a word, and its connections are lost."""
        self.is_up = False
        for answered in self.unanswered.values():
            self.network.scheduler.call_later(LATENCY_MS, self.network.meter.brokers(answered), None)
        self.host._shell._is_stopped = True  # no word of the end
        self.host.close()
        self.directory.abandon()


class ControllerNetwork:
    """All controllers, and the ways to them."""

    def __init__(self, folder: Path, scheduler: MeteredScheduler, voters: int) -> None:
        self.folder = folder
        self.scheduler = scheduler
        self.meter = scheduler.meter
        self.rng = Random(39)
        self.failures: list[str] = []
        self.frames: Counter[str] = Counter()
        """The requests of brokers, by name."""
        self.bytes_in: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()
        ids = range(FIRST_ID, FIRST_ID + voters)
        self.voters = ",".join(f"{each}@localhost:{each}" for each in ids)
        self.nodes: dict[int, ControllerNode] = {}
        for each in ids:
            self.nodes[each] = ControllerNode(self, each)

    @property
    def active(self) -> ControllerNode | None:
        """The active controller."""
        return next((node for node in self.nodes.values() if node.is_up and node.host.is_active), None)

    def end(self) -> None:
        """End all controllers."""
        for node in self.nodes.values():
            if node.is_up:
                node.end()

    def send(self, request: Any, answered: Callable[[Any], object]) -> None:
        """Send a broker's request to the active controller; without one it is answered with None. Responses arrive in
        a later turn."""
        node = self.active
        if node is None:
            self.scheduler.call_later(LATENCY_MS, self.meter.brokers(answered), None)
            return
        version = request.VERSIONS[-1]
        frame = codec.encode(request, version)
        self.scheduler.call_later(LATENCY_MS, self._arrived, node, type(request), version, frame, answered)

    def _arrived(
        self, node: ControllerNode, kind: type, version: int, frame: bytes, answered: Callable[[Any], object]
    ) -> None:
        name = kind.__name__
        if not node.is_up:
            self.scheduler.call_later(LATENCY_MS, self.meter.brokers(answered), None)
            return
        self.frames[name] += 1
        number = self.frames.total()
        node.unanswered[number] = answered
        self.bytes_in[name] += len(frame)

        def reply(response: Any) -> None:
            self.bytes_out[name] += len(codec.encode(response, version))
            if node.is_up and node.unanswered.pop(number, None):
                self.scheduler.call_later(LATENCY_MS, self.meter.brokers(answered), response)

        with self.meter.measure(name):
            request: Any = codec.decode(kind, version, frame)
            if kind in OF_QUORUM:
                node.host.asked(request, reply, LISTENER)
            else:
                node.host.send(request, reply, api_version=version)


class Connections:
    """The connections of one controller to the others (`kpybroker.hosts.network.peers.Peers`)."""

    def __init__(self, network: ControllerNetwork) -> None:
        self._network = network

    def at(self, _host: str, port: int) -> "Connection":
        return Connection(self._network, port)

    def keep(self, _addresses: Any) -> None:
        """None is opened."""

    def close(self) -> None:
        """None is open."""


class Connection:
    """The way to one controller."""

    def __init__(self, network: ControllerNetwork, node_id: int) -> None:
        self._network = network
        self._node_id = node_id

    def send(self, request: Any, done: Callable[[Any], object]) -> None:
        scheduler = self._network.scheduler
        node = self._network.nodes.get(self._node_id)
        if node is None or not node.is_up:
            scheduler.call_later(LATENCY_MS, done, NoResponse("nothing listens there"))
            return

        def answered(response: Any) -> None:
            scheduler.call_later(LATENCY_MS, done, response)

        scheduler.call_later(LATENCY_MS, node.host.asked, request, answered, LISTENER)
