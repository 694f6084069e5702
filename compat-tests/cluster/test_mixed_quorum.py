"""One cluster of both programs: Apache Kafka and kpybroker elect, replicate and follow one another, byte for byte. Then
each goes on with directories of the other.

It begins at a level of ``metadata.version``, and is raised meanwhile as far as all of its nodes know. ``--every-level``
plays every level that each release of Apache Kafka knows (`make mixed`).
"""

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conftest import started
from kpybroker.machines.metadata import metadata_version
from kpywire import error_codes
from oracle import BrokerProcess
from oracle.jars import KAFKA_BEFORE, KAFKA_VERSION
from replacement.kinds import replace
from support.admin_requests import quorum_of
from support.clusters import Cluster, KafkaNode, KpyNode, NodeOf, Place, kafka_node, kpybroker_node
from support.raw_client import RawClient
from support.raw_requests import creation, topic_named
from support.upgrading import finalized
from support.waiting import eventually

METADATA = "__cluster_metadata"
ORDERS = "orders"
RECORDS = 300
PATIENCE_S = 120.0
PATIENT = {"controller.quorum.election.timeout.ms": "4000", "controller.quorum.fetch.timeout.ms": "8000"}


class Levels(NamedTuple):
    """A release of Apache Kafka, and the levels of ``metadata.version`` at which a cluster with it begins and ends."""

    release: str
    first: int
    last: int


SHORT = [Levels(KAFKA_VERSION, 30, 33)]
EVERY = [Levels(KAFKA_BEFORE, 30, 30), *(Levels(KAFKA_VERSION, first, first) for first in (30, 31, 32, 33)), *SHORT]
NEWEST_OF = {KAFKA_BEFORE: 30, KAFKA_VERSION: 33}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The raise over all levels is enough where nobody asks for more."""
    if "levels" in metafunc.fixturenames:
        wanted = EVERY if metafunc.config.getoption("--every-level") else SHORT
        metafunc.parametrize("levels", wanted, ids=lambda each: f"{each.release}-from-{each.first}-to-{each.last}")


def nodes_at(levels: Levels) -> NodeOf:
    """Node 1 is Apache Kafka's, the others are kpybroker's; all are formatted at the first level."""

    def node_of(place: Place, properties: Any, directory: Path) -> BrokerProcess:
        node = (kafka_node if place.node_id == 1 else kpybroker_node)(place, properties, directory)
        assert isinstance(node, KafkaNode | KpyNode)
        if levels.first < metadata_version.LATEST:  # Apache Kafka would begin with features that others do not know
            node.formatting = ("--release-version", metadata_version.name_of(levels.first))
        if isinstance(node, KafkaNode):
            node.start_timeout_s, node.release = PATIENCE_S, levels.release
        return node

    return node_of


def soon(condition: Callable[[], Any], what: str) -> Any:
    """The condition's first true result. Nodes that are killed meanwhile answer nothing."""
    return eventually(condition, what, PATIENCE_S, despite=(OSError,))


def leader_of(cluster: Cluster) -> int:
    """The node that says of itself that it leads, and that the others follow it."""
    for node_id, place in cluster.places.items():
        if cluster.nodes[node_id].process is None:
            continue
        with RawClient(place.controller_port, timeout_s=5) as client:
            (partition,) = client.call(quorum_of((METADATA, [0])), 2).topics[0].partitions
        if partition.error_code == error_codes.NONE:
            return node_id
    return 0


def all_follow(cluster: Cluster) -> bool:
    leader = leader_of(cluster)
    if not leader:
        return False
    with RawClient(cluster.places[leader].controller_port, timeout_s=5) as client:
        (partition,) = client.call(quorum_of((METADATA, [0])), 2).topics[0].partitions
    ends = [voter.log_end_offset for voter in partition.current_voters]
    return len(ends) == len(cluster.places) and max(ends) - min(ends) < 10 and partition.high_watermark > 0


def create(cluster: Cluster, name: str) -> bool:
    for node in cluster.nodes.values():
        if node.process is not None:
            with RawClient(node.port, timeout_s=10) as client:
                (topic,) = client.call(creation(topic_named(name, 1)), 7).topics
            return topic.error_code in (error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS)
    return False


def log_of(node: BrokerProcess, partition: str) -> bytes:
    """The first segment of a log on the disk of a node that has stopped."""
    directory = Path(node.properties["log.dirs"].split(",")[0])  # type: ignore[attr-defined]
    return (directory / partition / f"{0:020d}.log").read_bytes().rstrip(b"\0")


def logs_are_equal(cluster: Cluster) -> bool:
    """The partitions' logs of all nodes, which have stopped."""
    logs = [[log_of(node, f"{ORDERS}-{index}") for node in cluster.nodes.values()] for index in range(3)]
    return all(len(set(of_one)) == 1 for of_one in logs)


def stop(cluster: Cluster) -> None:
    """Apache Kafka first: it waits for a controller that lets it go."""
    for node in sorted(cluster.nodes.values(), key=lambda node: not isinstance(node, KafkaNode)):
        node.stop()


def change_hands(cluster: Cluster, node_id: int, release: str) -> None:
    """Let the other program have the directory of a node that has stopped."""
    heir = replace(cluster, cluster.nodes[node_id])
    if isinstance(heir, KafkaNode):
        heir.release = release
    started.append(heir)


def level_of(node: BrokerProcess) -> int:
    return finalized(node.port).get("metadata.version", 0)


def all_are_at(cluster: Cluster, level: int) -> bool:
    return {level_of(node) for node in cluster.nodes.values()} == {level}


def change(cluster: Cluster, how: str, level: int) -> str:
    """Raise or lower ``metadata.version`` by the command: its last line if it is refused."""
    words = ("cluster", how, "--feature", f"metadata.version={level}", "--bootstrap-server", cluster.bootstrap_servers)
    done = subprocess.run([str(KpyNode.path), *words], capture_output=True, text=True, check=False)
    return (done.stderr.strip() or "refused") if done.returncode else ""


def changes(cluster: Cluster, how: str, level: int) -> bool:
    return not change(cluster, how, level)


def check_levels(cluster: Cluster, levels: Levels) -> None:
    """Raise the level as far as is wanted. What Apache Kafka does not know, or what would lose metadata, is refused by
    the node that leads."""
    for level in range(levels.first + 1, levels.last + 1):
        soon(partial(changes, cluster, "upgrade", level), f"level {level}")
        soon(partial(all_are_at, cluster, level), f"level {level} at all nodes")
    at = levels.last
    newest = NEWEST_OF[levels.release]
    if newest < metadata_version.LATEST:
        refused = change(cluster, "upgrade", newest + 1)
        assert f"only supports versions 7-{newest}" in refused, refused
    if at >= metadata_version.NETWORKS_IN_ACLS:
        assert f"Unsupported metadata.version downgrade from {at} to {at - 1}." in change(cluster, "downgrade", at - 1)
    if at == metadata_version.ONE_BOOTSTRAP:
        assert changes(cluster, "downgrade", at - 1)
        soon(partial(all_are_at, cluster, at - 1), "the lower level at all nodes")
        soon(partial(changes, cluster, "upgrade", at), "the level again")
    soon(partial(all_are_at, cluster, at), "the level at all nodes")


def another_leads(cluster: Cluster, leader: int) -> bool:
    return leader_of(cluster) not in (0, leader)


def create_orders(cluster: Cluster) -> None:
    """Three partitions, each led by another node."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    assignment = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    topic = NewTopic(ORDERS, 3, replica_assignment=assignment, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[ORDERS].result(PATIENCE_S)


def write(producer: Producer, turn: int) -> None:
    """The numbers of a turn to each partition; all are acknowledged by all replicas in sync."""
    for number in range(turn * RECORDS, (turn + 1) * RECORDS):
        for partition in range(3):
            producer.produce(ORDERS, b"%d" % number, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def read(cluster: Cluster, partition: int, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "judge", "log_level": 0})
    consumer.assign([TopicPartition(ORDERS, partition, 0)])
    try:
        found: list[int] = []
        while len(found) < count:
            messages = consumer.consume(count, PATIENCE_S)
            assert messages
            found += [int(message.value() or b"") for message in messages if message.error() is None]
        return found
    finally:
        consumer.close()


def all_in_sync(cluster: Cluster) -> bool:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    partitions = admin.list_topics(ORDERS, timeout=30).topics[ORDERS].partitions.values()
    return all(len(each.isrs) == 3 for each in partitions)


@pytest.mark.java
@pytest.mark.timeout(1_200)
def test_both_programs_lead_and_follow_in_one_cluster(tmp_path: Path, target: str, levels: Levels) -> None:
    if target != "kpybroker":
        pytest.skip("takes both programs")
    led: dict[type, int] = {}
    with Cluster(nodes_at(levels), tmp_path, properties=PATIENT) as cluster:
        started.extend(cluster.nodes.values())
        for node in cluster.nodes.values():
            node.stop_timeout_s = PATIENCE_S
        soon(partial(all_follow, cluster), "a quorum of all three")
        soon(partial(all_are_at, cluster, levels.first), "the first level at all nodes")
        create_orders(cluster)
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0,
             "delivery.timeout.ms": int(PATIENCE_S * 1000)}
        )  # fmt: skip
        turns = 0
        for number in range(8):
            soon(partial(all_follow, cluster), "a quorum of all three")
            soon(partial(all_in_sync, cluster), "all replicas in sync")
            write(producer, turns)
            leader = leader_of(cluster)
            program = KafkaNode if isinstance(cluster.nodes[leader], KafkaNode) else KpyNode
            led[program] = led.get(program, 0) + 1
            soon(partial(create, cluster, f"topic-{number}"), "a topic")
            turns += 1
            if len(led) == 2 and number >= 2:
                break
            node = cluster.nodes[leader]
            node.kill() if number % 2 else node.stop()
            soon(partial(another_leads, cluster, leader), "another leader")
            soon(partial(create, cluster, f"without-{number}"), "a topic")
            write(producer, turns)
            turns += 1
            cluster.start()
            if number == 0:
                soon(partial(all_follow, cluster), "a quorum of all three")
                check_levels(cluster, levels)
        assert set(led) == {KafkaNode, KpyNode}, led
        soon(partial(all_follow, cluster), "a quorum of all three")
        for partition in range(3):
            assert read(cluster, partition, turns * RECORDS) == list(range(turns * RECORDS))
        soon(partial(all_in_sync, cluster), "all replicas in sync")
        stop(cluster)
        assert logs_are_equal(cluster)
        logs = [log_of(node, f"{METADATA}-0") for node in cluster.nodes.values()]
        shortest = min(map(len, logs))
        assert shortest > 1_000
        begins = {log[: shortest - 500] for log in logs}
        assert len(begins) == 1, "the logs are the same but for what the last leader had not given to all"
        for node_id in (1, 2):
            change_hands(cluster, node_id, levels.release)
        cluster.start()
        soon(partial(all_follow, cluster), "a quorum of all three")
        soon(partial(all_in_sync, cluster), "all replicas in sync")
        write(producer, turns)
        for partition in range(3):
            assert read(cluster, partition, (turns + 1) * RECORDS) == list(range((turns + 1) * RECORDS))
        soon(partial(all_in_sync, cluster), "all replicas in sync")
        assert all_are_at(cluster, levels.last)
        stop(cluster)
        assert logs_are_equal(cluster)
        started[:] = [each for each in started if each not in cluster.nodes.values()]
