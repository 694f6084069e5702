"""Clusters of several processes: kpybroker's nodes or Apache Kafka's, in one shape, for tests and benchmarks.

Every node is broker and controller, and a static voter. What a suite does to them (SIGKILL, SIGTERM, SIGSTOP, an
emptied disk) it does to both programs alike.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from oracle import SERVER_JVM, SERVER_PROPERTIES, ApacheKafka, BrokerProcess, free_port
from oracle.broker import CLUSTER_ID, SMALL_JVM, SMALL_PROPERTIES
from oracle.process import HOST, BrokerProcessError, as_installed
from support.access import Access
from support.namespaces import Network

FORMAT_TIMEOUT_S: Final = 60
SHARED: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}
"""The configuration that nodes of both programs share; the rest are Kafka's defaults."""


class Place(NamedTuple):
    """The address of a node. ``launcher`` goes before its command: it puts the node there."""

    node_id: int
    port: int
    controller_port: int
    host: str = HOST
    launcher: tuple[str, ...] = ()


class KpyNode(BrokerProcess):
    """One node of a cluster of kpybroker."""

    program = "kpybroker"
    path = Path(sys.executable).with_name("kpybroker")
    """The command that is started: this environment's, unless another one's is named."""
    formatting: tuple[str, ...] = ()
    """More words for ``format``."""

    def __init__(self, place: Place, properties: Mapping[str, str], directory: Path) -> None:
        super().__init__(directory, place.port)
        self.host, self.launcher = place.host, place.launcher
        self.properties = {"log.dirs": str(directory / "data"), "kpybroker.http.listener": "", **properties}

    @property
    def file(self) -> Path:
        """Its configuration."""
        return self.directory / "server.properties"

    @property
    def words(self) -> tuple[str, ...]:
        """The words that begin every command line of this node's program."""
        return (str(self.path),)

    def prepare(self) -> None:
        self.file.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        if (self.directory / "data" / "meta.properties").exists():
            return
        command = [*self.words, "format", *self.formatting, "--cluster-id", CLUSTER_ID, "--config", str(self.file)]
        formatted = subprocess.run(
            command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, env=as_installed()
        )
        if formatted.returncode != 0:
            raise BrokerProcessError(f"{' '.join(command)}:\n{formatted.stdout}{formatted.stderr}")

    def command(self) -> Sequence[str]:
        return [*self.launcher, *self.words, "start", str(self.file)]


class KafkaNode(ApacheKafka):
    """One node of a cluster of Apache Kafka."""

    launcher: tuple[str, ...] = ()

    def command(self) -> Sequence[str]:
        return [*self.launcher, *super().command()]


def kpybroker_node(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
    return KpyNode(place, properties, directory)


def kafka_node(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
    """Small, for tests."""
    return _kafka_node(place, properties, directory, SMALL_JVM, SMALL_PROPERTIES)


def shipped_kafka_node(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
    """With the heap, collector and thread counts its distribution ships."""
    return _kafka_node(place, properties, directory, SERVER_JVM, SERVER_PROPERTIES)


def _kafka_node(
    place: Place, properties: Mapping[str, str], directory: Path, jvm: Sequence[str], tuning: Mapping[str, str]
) -> BrokerProcess:
    # The session and heartbeat times of a small Kafka are shorter than the defaults.
    kept = {key: value for key, value in tuning.items() if key not in properties and not key.startswith("broker.")}
    node = KafkaNode(properties, directory=directory, port=place.port, jvm=jvm, tuning=kept, formatting=())
    node.host, node.launcher = place.host, place.launcher
    for key in ("controller.quorum.bootstrap.servers", *_ONE_NODE_ONLY):
        if key not in properties:
            node.properties.pop(key, None)
    return node


_ONE_NODE_ONLY = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
NodeOf = Callable[[Place, Mapping[str, str], Path], BrokerProcess]
PROGRAMS: Final[Mapping[str, NodeOf]] = {"kpybroker": kpybroker_node, "apache-kafka": kafka_node}


class Nodes:
    """Nodes by their ids, and how clients reach them: ``with Cluster(kpybroker_node, directory) as cluster``."""

    forgotten_after_s: float = 0.0
    """The time that a killed node must stay away, since the cluster still knows it as alive."""

    def __init__(self, nodes: Mapping[int, BrokerProcess], network: Network | None = None) -> None:
        self.nodes = dict(nodes)
        self.network = network
        self.access = Access(self.bootstrap_servers)
        """How its clients reach it."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    @property
    def processes(self) -> list[BrokerProcess]:
        """All that belongs to the cluster."""
        return [*self.nodes.values()]

    def start(self) -> None:
        """Start all that do not run; raises BrokerProcessError."""
        launched = [node for node in self.processes if node.process is None]
        for node in launched:
            node.launch()
        for node in launched:
            node.wait_until_it_answers()

    def stop(self) -> None:
        """Stop all that run, by SIGTERM and at once."""
        with ThreadPoolExecutor(len(self.processes)) as threads:
            list(threads.map(lambda node: node.stop(), [each for each in self.processes if each.process]))

    def wipe(self, node_id: int) -> None:
        """Empty the disk of a node that does not run, and format it again as its owner would."""
        node = self.nodes[node_id]
        if node.process is not None:
            raise RuntimeError(f"node {node_id} runs")
        shutil.rmtree(node.directory / "data")
        node.prepare()

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self) -> None:
        """Prepare and start all for the first time."""
        for node in self.processes:
            node.directory.mkdir(parents=True, exist_ok=True)
            node.prepare()
        self.start()

    def end(self) -> None:
        """End all processes in whatever state they are."""
        for node in self.processes:
            if node.process is not None:
                node.process.kill()
                node.process.wait()
                node.process = None


class Cluster(Nodes):
    """A cluster in KRaft mode; node ids are 1 to ``size``."""

    def __init__(
        self,
        node_of: NodeOf,
        directory: Path,
        size: int = 3,
        properties: Mapping[str, str] | None = None,
        *,
        network: Network | None = None,
    ) -> None:
        """All on loopback, or each in a namespace of ``network``."""
        self.places = {}
        for node_id in range(1, size + 1):
            place = Place(node_id, free_port(), free_port())
            if network is not None:
                place = place._replace(host=network.address(node_id), launcher=network.launcher(node_id))
            self.places[node_id] = place
        voters = ",".join(f"{each.node_id}@{each.host}:{each.controller_port}" for each in self.places.values())
        nodes: dict[int, BrokerProcess] = {}
        for place in self.places.values():
            listeners = f"PLAINTEXT://{place.host}:{place.port},CONTROLLER://{place.host}:{place.controller_port}"
            own = {
                "node.id": str(place.node_id),
                "listeners": listeners,
                "advertised.listeners": f"PLAINTEXT://{place.host}:{place.port}",
                "controller.quorum.voters": voters,
            }
            here = directory / f"node-{place.node_id}"
            nodes[place.node_id] = node_of(place, {**SHARED, **own, **(properties or {})}, here)
        super().__init__(nodes, network)
