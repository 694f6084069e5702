"""A cluster for tests: ``with Cluster(3) as cluster:``. Nodes are real, each a process of its own that can be killed.

It is not a simulation: time passes as it does for users, and a failover takes as long as in production. Data is in a
temporary directory, the ports are free ones, and nothing is left behind.
"""

import random
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from kpybroker.client.connection import BrokerConnection, Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.node.local_cluster.foundation import found
from kpybroker.node.local_cluster.layout import CONTROLLERS_OF_MANY, PlannedNode
from kpybroker.testing.client import raise_for
from kpybroker.testing.cluster_nodes import ClusterHost, LoopNode, ProcessNode
from kpybroker.testing.hosts import BrokerFailed
from kpybroker.testing.loop_thread import LoopThread
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

T = TypeVar("T")

HOST: Final = "127.0.0.1"
START_TIMEOUT_S = 60.0
TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 10.0
_PAUSE_S = 0.02
_LOWEST_PORT = 15_000
_HIGHEST_PORT = 32_000
"""The highest port to use, below those that systems give to clients: a client that keeps connecting to a dead node's
port could be given that very port."""
DEFAULTS: Mapping[str, str] = {
    "kpybroker.http.listener": "",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "9000",
    "connections.max.idle.ms": "600000",
}
"""The configuration of the nodes of a cluster in a test, unless the test overrides it."""


class Cluster:
    """Nodes 1 to N, all of them brokers. The first three (or the first alone) are controllers too."""

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, object] | None = None,
        *,
        directory: str | Path | None = None,
        process: bool = True,
    ) -> None:
        """``config``: Kafka's configs, for all nodes. ``directory``: keep the data there, for another cluster later.

        Without ``process`` all nodes share one loop in a thread: they start faster, and none can be held.
        """
        self._count = brokers
        self._config = {**DEFAULTS, **{key: _text(value) for key, value in (config or {}).items()}}
        self._given_directory = None if directory is None else Path(directory)
        self._in_processes = process
        self._directory: Path | None = None
        self._thread: LoopThread | None = None
        self._nodes: dict[int, PlannedNode] = {}
        self._hosts: dict[int, ClusterHost] = {}

    # Life

    def start(self) -> "Cluster":
        """Start all nodes; every one serves clients when this returns. Raises BrokerFailed."""
        if self._hosts:
            raise BrokerFailed("the cluster is running already")
        self._directory = self._given_directory or Path(tempfile.mkdtemp(prefix="kpybroker-cluster-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        ports = _free_ports(self._count + CONTROLLERS_OF_MANY)
        try:
            nodes = found(
                self._directory, HOST, ports[: self._count], ports[self._count :], self._config, socket.gethostname()
            )
            self._nodes = {node.id: node for node in nodes}
            self._hosts = {node.id: self._new_host(node) for node in nodes}
            for host in self._hosts.values():
                host.start()
            for host in self._hosts.values():
                host.wait_until_ready(START_TIMEOUT_S)
        except BaseException as error:
            self._end(kill=True)
            if isinstance(error, (BrokerFailed, KeyboardInterrupt)):
                raise
            raise BrokerFailed(f"the cluster did not start: {error}") from error
        return self

    def stop(self, node: int | None = None) -> None:
        """Stop one node cleanly, or all. Without a given directory their data is deleted anyway, so the stop does not
        wait for it."""
        if node is not None:
            self._host(node).stop()
        else:
            self._end(kill=self._given_directory is None)

    def kill(self, node: int) -> None:
        """SIGKILL: the node closes nothing properly."""
        self._host(node).kill()

    def pause(self, node: int) -> None:
        """SIGSTOP: the node keeps its connections and answers nothing until `resume`."""
        self._host(node).pause()

    def resume(self, node: int) -> None:
        """SIGCONT: the node continues as if nothing had happened."""
        self._host(node).resume()

    def restart(self, node: int) -> None:
        """Start a node that was stopped or killed, or stop it and start it again. It serves clients when this
        returns."""
        host = self._host(node)
        host.stop()
        host.start()
        host.wait_until_ready(START_TIMEOUT_S)

    def heal(self) -> None:
        """Resume the nodes that are held, and start those that were stopped or killed."""
        for node, host in self._hosts.items():
            if not host.answers:
                host.resume()
            if not host.answers:
                self.restart(node)

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Where it is

    @property
    def nodes(self) -> list[int]:
        """The numbers of all nodes."""
        return sorted(self._nodes)

    @property
    def running(self) -> list[int]:
        """The numbers of the nodes that are not stopped, killed or held."""
        return [number for number in self.nodes if self._hosts[number].answers]

    @property
    def bootstrap_servers(self) -> str:
        """All brokers as ``host:port,host:port``, for any client."""
        return ",".join(self.address(number) for number in self.nodes)

    def address(self, node: int) -> str:
        """``host:port`` of one broker."""
        self._host(node)
        return f"{self._nodes[node].clients.host}:{self._nodes[node].clients.port}"

    def pid(self, node: int) -> int:
        """The process id of a node."""
        host = self._host(node)
        if not isinstance(host, ProcessNode):
            raise BrokerFailed("the nodes share this process")
        return host.pid

    def output(self, node: int) -> list[str]:
        """The last output of a node's process, line by line."""
        host = self._host(node)
        return list(host.lines) if isinstance(host, ProcessNode) else []

    # Events in the cluster

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic, and wait until every running node knows it. Return its name. Raises KafkaError."""
        configs = [CreatableTopicConfig(name=key, value=_text(value)) for key, value in (config or {}).items()]
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[],
            configs=configs,
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(TIMEOUT_S * 1000))

        def create() -> bool:
            (result,) = self._ask(request).topics
            raise_for(result.error_code, f"topic {name}", result.error_message)
            return True

        self._until(create, TIMEOUT_S, f"topic {name} was not created")
        for node in self.running:
            self._until(partial(self._led, name, [node]), TIMEOUT_S, f"node {node} does not know who leads {name}")
        return name

    def leader(self, topic: str, partition: int = 0, *, timeout_s: float = TIMEOUT_S) -> int:
        """The node that leads a partition. Waits until a running node does. Raises BrokerFailed, KafkaError."""

        def look() -> int | None:
            found = self._topic(topic).partitions
            leader = next((each.leader_id for each in found if each.partition_index == partition), -1)
            return leader if leader in self.running else None

        return self._until(look, timeout_s, f"no running node leads {topic}-{partition}")

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """The nodes whose replicas of a partition are in sync, as the brokers report it now."""
        found = self._topic(topic).partitions
        return {node for each in found if each.partition_index == partition for node in each.isr_nodes}

    def wait_for_in_sync(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Return when all replicas of all partitions of a topic are in sync. Raises BrokerFailed, KafkaError."""

        def look() -> bool:
            return all(set(each.isr_nodes) == set(each.replica_nodes) for each in self._topic(topic).partitions)

        self._until(look, timeout_s, f"not all replicas of {topic} are in sync")

    def controller(self, *, timeout_s: float = TIMEOUT_S) -> int:
        """The active controller. Waits until a running node is. Raises BrokerFailed."""
        data = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[data])

        def look() -> int | None:
            answer = self._ask(DescribeQuorumRequest(topics=[topic]))
            raise_for(answer.error_code, "the quorum", answer.error_message)
            (partition,) = answer.topics[0].partitions
            raise_for(partition.error_code, "the quorum")
            return partition.leader_id if partition.leader_id in self.running else None

        return self._until(look, timeout_s, "there is no active controller")

    # Inside

    def _new_host(self, node: PlannedNode) -> ClusterHost:
        if self._in_processes:
            return ProcessNode(node)
        if self._thread is None:
            self._thread = LoopThread("kpybroker")
        return LoopNode(node, self._thread)

    def _host(self, node: int) -> ClusterHost:
        if node not in self._hosts:
            raise BrokerFailed(f"there is no node {node} running here" if self._hosts else "the cluster is not running")
        return self._hosts[node]

    def _end(self, *, kill: bool) -> None:
        """End the nodes that are only brokers first, then the controllers: each then finds a node to hand its
        leaderships to."""
        hosts, self._hosts, self._nodes, nodes = self._hosts, {}, {}, self._nodes
        try:
            for number in sorted(hosts, key=lambda each: (nodes[each].controller is not None, each)):
                hosts[number].kill() if kill else hosts[number].stop()
        finally:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.close()
            if self._given_directory is None and self._directory is not None:
                shutil.rmtree(self._directory, ignore_errors=True)

    def _topic(self, name: str, nodes: Iterable[int] | None = None) -> MetadataResponseTopic:
        wanted = [MetadataRequestTopic(name=name)]
        (topic,) = self._ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), nodes).topics
        raise_for(topic.error_code, f"topic {name}")
        found: MetadataResponseTopic = topic
        return found

    def _led(self, name: str, nodes: Iterable[int]) -> bool:
        return all(each.leader_id >= 0 for each in self._topic(name, nodes).partitions)

    def _ask(self, request: Any, nodes: Iterable[int] | None = None) -> Any:
        """The answer of one of these nodes, or of any running node. Raises Unreachable, KafkaError."""
        problem = Unreachable("no node is running")
        for number in self.running if nodes is None else nodes:
            try:
                connection = BrokerConnection(*self._nodes[number].clients, ANSWER_TIMEOUT_S)
                try:
                    return connection.call(request)
                finally:
                    connection.close()
            except Unreachable as error:
                problem = error
        raise problem

    def _until(self, look: Callable[[], T | None], timeout_s: float, what: str) -> T:
        """The result of ``look``, which is called again while it finds nothing or raises an error that passes."""
        deadline = time.monotonic() + timeout_s
        while True:
            why = ""
            try:
                result = look()
                if result:
                    return result
            except Unreachable as error:
                why = f": {error}"
            except KafkaError as error:
                if not error_codes.retriable(error.code):
                    raise
                why = f": {error}"
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{what} within {timeout_s:.0f} s{why}")
            time.sleep(_PAUSE_S)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _free_ports(count: int) -> list[int]:
    rng = random.Random()
    ports: list[int] = []
    while len(ports) < count:
        port = rng.randrange(_LOWEST_PORT, _HIGHEST_PORT)
        with socket.socket() as candidate:
            try:
                candidate.bind((HOST, port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
