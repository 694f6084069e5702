"""Nodes with tiered storage in a directory that they share: kpybroker, and two releases of Apache Kafka.

The store is Kafka's LocalTieredStorage, whose class is in the jar of the tests of 4.3.1. It runs under 4.4.0 too, with
one class beside it that 4.4.0 has in another package.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from oracle import BrokerProcess
from oracle.jars import KAFKA_BEFORE, KAFKA_VERSION, compile_java
from oracle.remote import remote_jars
from support.clusters import Cluster, KafkaNode, KpyNode, NodeOf, Nodes, Place, kafka_node, kpybroker_node

HERE: Final = Path(__file__).resolve().parent
LOCAL_TIERED_STORAGE: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
REMOTE_STORAGE_MANAGER: Final = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
SLOW_TRANSFERER: Final = "SlowTransferer"
LEVEL: Final = ("--release-version", "4.3")
"""The options of ``format``: all programs know this level."""
PATIENCE_S: Final = 300.0
METADATA_PARTITIONS: Final = 5
OFTEN: Final = {
    "remote.log.manager.task.interval.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.segment.delete.delay.ms": "300",
}
"""Copies, expiry and local retention are not waited for."""
SOON: Final = {
    "kpybroker.remote.copy.deadline.ms": "10000",
    "kpybroker.remote.sweep.interval.ms": "10000",
}
"""Copies that nobody finishes, and objects of no segment, are deleted within half a minute."""
ALONE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
SLOW: Final = {
    "rsm.config.transferer.class": SLOW_TRANSFERER,
    "remote.log.manager.copy.max.bytes.per.second": "100000",
}
"""Copies that take a second, so that nodes can be killed meanwhile: Apache Kafka waits after each file, kpybroker obeys
its quota within a file."""


def kafka_of(release: str) -> NodeOf:
    """Small nodes of a release of Apache Kafka, with the class of the store."""

    def node_of(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
        node = kafka_node(place, properties, directory)
        assert isinstance(node, KafkaNode)
        node.release, node.formatting, node.plugins = release, LEVEL, _plugins(release, properties)
        node.start_timeout_s = node.stop_timeout_s = PATIENCE_S
        return node

    return node_of


def _plugins(release: str, properties: Mapping[str, str]) -> list[Path]:
    """The class path of the store: its jar, and what it needs beside it."""
    plugins = [remote_jars()]
    if release == KAFKA_VERSION:
        plugins.append(compile_java(HERE / "LogContext.java"))
    if properties.get("rsm.config.transferer.class") == SLOW_TRANSFERER:
        plugins.append(compile_java(HERE / f"{SLOW_TRANSFERER}.java", remote_jars(), release=KAFKA_BEFORE))
    return plugins


def kpybroker_of_level(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
    """kpybroker, which says in one line that it ignores the settings of Kafka's store that it does not have."""
    node = kpybroker_node(place, properties, directory)
    assert isinstance(node, KpyNode)
    node.formatting = LEVEL
    node.start_timeout_s = node.stop_timeout_s = PATIENCE_S
    return node


KAFKA: Final = "apache-kafka"
KPYBROKER: Final = "kpybroker"
EARLIER_KAFKA: Final = f"apache-kafka-{KAFKA_BEFORE}"
PROGRAMS: Final[Mapping[str, NodeOf]] = {
    KPYBROKER: kpybroker_of_level,
    KAFKA: kafka_of(KAFKA_VERSION),
    EARLIER_KAFKA: kafka_of(KAFKA_BEFORE),
}
BESIDE: Final = {KPYBROKER: KAFKA, KAFKA: EARLIER_KAFKA}
"""The program that a target exchanges its directories with."""


def store_of(directory: Path) -> Path:
    """The store of a cluster whose nodes are below this directory."""
    return directory / "store"


def tiered(store: Path, replicas: int = 1) -> dict[str, str]:
    """The settings of every node of a cluster, whatever its program."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": LOCAL_TIERED_STORAGE,
        "rsm.config.dir": str(store),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS),
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "rlmm.config.remote.log.metadata.topic.min.isr": str(min(replicas, 2)),
        **OFTEN,
        **(ALONE if replicas == 1 else {}),
    }


def tiered_cluster(
    program: str, directory: Path, size: int = 1, properties: Mapping[str, str] | None = None
) -> Cluster:
    """A cluster of one program; the nodes and the store are below the directory."""
    store = store_of(directory)
    store.mkdir(parents=True, exist_ok=True)
    return Cluster(PROGRAMS[program], directory, size, {**tiered(store, size), **(properties or {})})


def s3_cluster(directory: Path, size: int, store: Mapping[str, str]) -> Cluster:
    """A cluster of kpybroker whose store has these settings. What is left of a copy is soon deleted."""
    properties = {key: value for key, value in tiered(directory, size).items() if not key.startswith("rsm.config.")}
    properties |= {"remote.log.storage.manager.class.name": REMOTE_STORAGE_MANAGER, **SOON, **store}
    return Cluster(PROGRAMS[KPYBROKER], directory, size, properties)


def hand_over(cluster: Nodes, node_id: int, program: str) -> BrokerProcess:
    """The node of another program on the directories and addresses of one that has stopped; it is not started yet."""
    before = cluster.nodes[node_id]
    assert isinstance(before, KafkaNode | KpyNode)
    assert before.process is None
    properties = {key: value for key, value in before.properties.items() if not key.startswith("kpybroker.")}
    heir = PROGRAMS[program](Place(node_id, before.port, before.port), properties, before.directory)
    heir.prepare()
    cluster.nodes[node_id] = heir
    return heir
