"""The targets of the suites: kpybroker, also with its logs in a store, Apache Kafka from its jars or in a container,
both in ZooKeeper mode, or somebody else's broker.

A target starts brokers; the suites see only ``BrokerProcess`` or a bootstrap address, never which program answers.
"""

import atexit
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from oracle import ApacheKafka, BrokerProcess, free_port
from oracle.container import ContainedKafka
from oracle.process import HOST
from oracle.zookeeper import KafkaOnZooKeeper, ZooKeeper
from support.zookeeper_clusters import KpyOnZooKeeper

ON_ZOOKEEPER: Final = "kpybroker-zookeeper"
KAFKA_ON_ZOOKEEPER: Final = "apache-kafka-zookeeper"
"""Kafka 3.9, the last one with ZooKeeper mode."""
IN_ZOOKEEPER_MODE: Final = (ON_ZOOKEEPER, KAFKA_ON_ZOOKEEPER)
AUTHORIZERS: Final = {
    False: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    True: "kafka.security.authorizer.AclAuthorizer",
}
"""The class of Kafka's authorizer, by whether the broker is in ZooKeeper mode."""
TIERED: Final = "kpybroker-tiered"
ONLY_IN_STORE: Final = Path(__file__).resolve().parents[1] / "tiered" / "only_in_store.py"
IN_STORE: Final = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}
ALONE_ON_ZOOKEEPER: Final = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}


class KpyBroker(BrokerProcess):
    """kpybroker in a child process, told what to do by a ``server.properties`` as Kafka would be."""

    program = "kpybroker"
    path = Path(sys.executable).with_name("kpybroker")
    """The command that is started: this environment's, unless ``--kpybroker`` names another one's."""
    start_timeout_s = 20.0
    stop_timeout_s = 10.0

    def __init__(self, properties: Mapping[str, str] | None = None, *, directory: Path) -> None:
        super().__init__(directory, free_port())
        self.properties = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(directory / "data"),
            "group.initial.rebalance.delay.ms": "0",
            **(properties or {}),
        }

    def prepare(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "server.properties").write_text("".join(lines))

    def command(self) -> Sequence[str]:
        return [str(self.path), "start", str(self.directory / "server.properties"), "--http", "off"]


class KpyInStore(KpyBroker):
    """kpybroker whose disk has the newest batch of each log alone; all else is in a directory that is its store."""

    start_timeout_s = 60.0

    def __init__(self, properties: Mapping[str, str] | None = None, *, directory: Path) -> None:
        store = {"kpybroker.remote.store": (directory / "store").absolute().as_uri()}
        super().__init__({**IN_STORE, **store, **(properties or {})}, directory=directory)

    def prepare(self) -> None:
        (self.directory / "store").mkdir(exist_ok=True)
        super().prepare()

    def command(self) -> Sequence[str]:
        _, *arguments = super().command()
        return [sys.executable, str(ONLY_IN_STORE), *arguments]


def apache_kafka(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
    return ApacheKafka(properties, directory=directory)


def kpybroker(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
    return KpyBroker(properties, directory=directory)


def kpybroker_tiered(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
    return KpyInStore(properties, directory=directory)


def container(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
    return ContainedKafka(properties, directory=directory)


def on_shared_zookeeper(broker_of: Callable[..., BrokerProcess]) -> Callable[..., BrokerProcess]:
    """Brokers in ZooKeeper mode, each in a chroot of its own of one server, which ends with this process."""

    def start(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
        connect = f"{shared_zookeeper().bootstrap_servers}/{secrets.token_hex(6)}"
        broker = broker_of(1, connect, {**ALONE_ON_ZOOKEEPER, **(properties or {})}, directory=directory)
        broker.directory.mkdir(parents=True, exist_ok=True)
        return broker

    return start


@cache
def shared_zookeeper() -> ZooKeeper:
    """A server of ZooKeeper for all brokers of this process."""
    server = ZooKeeper()
    server.__enter__()
    atexit.register(server.__exit__, None, None, None)
    return server


EXTERNAL: Final = "external"
"""The target that ``--bootstrap-server`` names: it can be neither started nor configured."""
TARGETS: Final[Mapping[str, Callable[..., BrokerProcess]]] = {
    "kpybroker": kpybroker,
    "apache-kafka": apache_kafka,
    "container": container,
    TIERED: kpybroker_tiered,
    ON_ZOOKEEPER: on_shared_zookeeper(KpyOnZooKeeper),
    KAFKA_ON_ZOOKEEPER: on_shared_zookeeper(KafkaOnZooKeeper),
}
