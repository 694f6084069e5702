"""Clusters in ZooKeeper mode: servers of ZooKeeper, and brokers of both programs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from oracle import BrokerProcess, free_port
from oracle.process import HOST
from oracle.zookeeper import KafkaOnZooKeeper, ZooKeeper
from support.clusters import Nodes
from support.namespaces import Network

SESSION_TIMEOUT_MS: Final = 4_000
SHARED: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": "60000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "500",
}
"""The configuration of brokers of both programs."""
REPLICATED: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
"""For clusters of three, which lose a broker and go on."""
BUSY_START_S: Final = 180.0
"""For a JVM to start on a machine that does much else."""
OF_AN_ENSEMBLE: Final = {"initLimit": "20", "syncLimit": "10", "standaloneEnabled": "false"}


class KpyOnZooKeeper(BrokerProcess):
    """A broker of kpybroker in ZooKeeper mode. ``launcher`` goes before its command."""

    program = "kpybroker"
    path = Path(sys.executable).with_name("kpybroker")
    """The command that is started: this environment's, unless another one's is named."""

    def __init__(
        self,
        broker_id: int | None,
        connect: str,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path,
        port: int | None = None,
        host: str = HOST,
        launcher: Sequence[str] = (),
    ) -> None:
        super().__init__(directory, port or free_port())
        self.host, self.launcher, self.broker_id = host, launcher, broker_id
        listeners = (properties or {}).get("listeners", f"PLAINTEXT://{host}:{self.port}")
        self.properties = {
            "zookeeper.connect": connect,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "log.dirs": str(self.data),
            "kpybroker.http.listener": "",
            **({} if broker_id is None else {"broker.id": str(broker_id)}),
            **(properties or {}),
        }

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "server.properties").write_text("".join(lines))

    def command(self) -> Sequence[str]:
        return [*self.launcher, str(self.path), "start", str(self.directory / "server.properties")]


BrokerOf = Callable[..., BrokerProcess]
ON_ZOOKEEPER: Final[Mapping[str, Mapping[int, BrokerOf]]] = {
    "kpybroker": {1: KpyOnZooKeeper, 2: KpyOnZooKeeper, 3: KpyOnZooKeeper},
    "apache-kafka": {1: KafkaOnZooKeeper, 2: KafkaOnZooKeeper, 3: KafkaOnZooKeeper},
    "mixed": {1: KpyOnZooKeeper, 2: KafkaOnZooKeeper, 3: KpyOnZooKeeper},
}
"""The brokers of a cluster of three, by the program."""


class ZooKeeperCluster(Nodes):
    """``with ZooKeeperCluster(directory, {1: KafkaOnZooKeeper, 2: KpyOnZooKeeper}) as cluster``: brokers by their ids,
    started one after the other, so that the first one is the controller.

    ``servers`` of ZooKeeper, with ids from 1 on, are one ensemble. In a ``network`` each broker has the namespace of
    its id, and the servers have those behind them.
    """

    def __init__(
        self,
        directory: Path,
        brokers: Mapping[int, BrokerOf],
        properties: Mapping[str, str] | None = None,
        *,
        servers: int = 1,
        network: Network | None = None,
    ) -> None:
        self.servers = ensemble(directory, servers, network, max(brokers))
        self.connect = f"{','.join(server.bootstrap_servers for server in self.servers.values())}/kafka"
        configs = {**SHARED, **(properties or {})}
        nodes = {
            broker_id: broker_of(
                broker_id,
                self.connect,
                configs,
                directory=directory / f"broker-{broker_id}",
                **placed(network, broker_id),
            )
            for broker_id, broker_of in brokers.items()
        }
        super().__init__(nodes, network)
        if any(isinstance(node, KafkaOnZooKeeper) for node in nodes.values()):
            # Apache Kafka does not start while ZooKeeper has its former session.
            self.forgotten_after_s = 1.5 * SESSION_TIMEOUT_MS / 1000

    @property
    def brokers(self) -> dict[int, BrokerProcess]:
        """Its nodes, which are brokers and candidates for the controller."""
        return self.nodes

    @property
    def processes(self) -> list[BrokerProcess]:
        return [*self.nodes.values(), *self.servers.values()]

    def start(self) -> None:
        """Start all that do not run, the servers of ZooKeeper first."""
        self.start_servers()
        super().start()

    @property
    def zookeeper(self) -> ZooKeeper:
        """The server of a cluster that has only one."""
        (server,) = self.servers.values()
        return server

    @property
    def leading_server(self) -> int | None:
        """The id of the server of ZooKeeper that leads the others, or is alone."""
        modes = {number: each.mode for number, each in self.servers.items() if each.process is not None}
        return next((number for number, mode in modes.items() if mode in ("leader", "standalone")), None)

    def start_servers(self) -> None:
        """Start all servers of ZooKeeper that do not run."""
        launched = [server for server in self.servers.values() if server.process is None]
        for server in launched:
            server.launch()
        for server in launched:
            server.wait_until_it_answers()

    def begin(self) -> None:
        for server in self.servers.values():
            server.directory.mkdir(parents=True, exist_ok=True)
            server.prepare()
        self.start_servers()
        for broker in self.nodes.values():
            broker.directory.mkdir(parents=True, exist_ok=True)
            broker.prepare()
            broker.start()


def placed(network: Network | None, number: int) -> dict[str, Any]:
    """The place of a process as keywords of its class: nowhere special without a network."""
    if network is None:
        return {}
    return {"host": network.address(number), "launcher": network.launcher(number)}


def ensemble(directory: Path, size: int, network: Network | None, behind: int) -> dict[int, ZooKeeper]:
    """Servers by their ids. Their namespaces are ``behind`` those of brokers."""
    if size == 1:
        return {1: ZooKeeper(directory=directory / "zookeeper", **placed(network, behind + 1))}
    hosts = {number: HOST if network is None else network.address(behind + number) for number in range(1, size + 1)}
    peers = {f"server.{number}": f"{host}:{free_port()}:{free_port()}" for number, host in hosts.items()}
    return {
        number: ZooKeeper(
            {**OF_AN_ENSEMBLE, **peers},
            number=number,
            directory=directory / f"zookeeper-{number}",
            **placed(network, behind + number),
        )
        for number in hosts
    }


def zookeeper_cluster(
    program: str, directory: Path, properties: Mapping[str, str] | None = None, network: Network | None = None
) -> ZooKeeperCluster:
    """Three brokers of a program, or of both, and three servers of ZooKeeper; any one of each may fail."""
    configs = {**REPLICATED, **(properties or {})}
    cluster = ZooKeeperCluster(directory, ON_ZOOKEEPER[program], configs, servers=3, network=network)
    for process in cluster.processes:
        process.start_timeout_s = max(process.start_timeout_s, BUSY_START_S)
    return cluster


__all__ = [
    "ON_ZOOKEEPER",
    "SESSION_TIMEOUT_MS",
    "SHARED",
    "KafkaOnZooKeeper",
    "KpyOnZooKeeper",
    "ZooKeeperCluster",
    "zookeeper_cluster",
]
