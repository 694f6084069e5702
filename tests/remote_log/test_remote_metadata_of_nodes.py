"""``__remote_log_metadata`` of three running nodes: made, written and read by them and by Apache Kafka's manager."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from metadata_world import PARTITIONS, USER_TOPIC, copy_of
from remote_log_histories import update

from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.remote_log.metadata_topic import MetadataNodes, RemoteLogMetadataTopic
from kpybroker.hosts.remote_log.metadata_values import read_value, written_value
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.remote_log.segments import FINISHED, Record, RemoteLogSegment
from kpybroker.node.node import Node
from kpywire.remote_log_record import TOPIC, partition_of
from kpywire.uuid import to_string
from oracle.asked import AskedOracle
from support.waiting import eventually
from tests.cluster.running_cluster import COMBINED, RunningCluster, cluster_of

pytestmark = pytest.mark.slow

COUNT = 5
TOPIC_WORDS = ("u", to_string(USER_TOPIC))


def metadata_of(node: Node) -> RemoteLogMetadataTopic:
    """The topic of a running node, which follows its metadata from now on. To be called on the loop."""
    broker, config = node.broker, node.config
    assert broker is not None
    listener = config.inter_broker_listener_name
    nodes = MetadataNodes(
        *[
            Nodes(broker.image, listener, node.platform.broker_peers(config, purpose))
            for purpose in ("polls", "produces")
        ]
    )
    topic = RemoteLogMetadataTopic(
        config.node_id, node.scheduler, broker.replicas, nodes, broker.controller.send, lambda: config
    )
    follow = broker.follow

    def follow_both(image: Any, delta: Any) -> None:
        follow(image, delta)
        topic.apply(image, delta)

    broker.follow = follow_both  # type: ignore[method-assign]
    for end in (topic.stop, nodes.polls.close, nodes.produces.close):
        node.platform.ends.callback(end)
    topic.apply(broker.image, MetadataDelta())
    topic.start()
    return topic


class MetadataCluster:
    """The nodes and their topics."""

    def __init__(self, running: RunningCluster) -> None:
        self.running = running
        self.topics = {
            node_id: running.call(lambda node=node: metadata_of(node)) for node_id, node in running.nodes.items()
        }

    def need(self, index: int) -> None:
        for topic in self.topics.values():
            self.running.call(lambda topic=topic: topic.need(USER_TOPIC, index))
        self.running.eventually(
            lambda: all(topic.segments_of(USER_TOPIC, index) is not None for topic in self.topics.values()),
            "all nodes have read the topic",
        )

    def write(self, node_id: int, *records: Record) -> None:
        """Write records and wait until all are reported."""
        results: list[str | None] = []

        def write() -> None:
            for record in records:
                self.topics[node_id].write(record, results.append)

        self.running.call(write)
        eventually(lambda: len(results) == len(records), "the records are written")
        assert results == [None] * len(records)

    def all_know(self, index: int, expected: list[RemoteLogSegment]) -> None:
        def known() -> list[list[RemoteLogSegment]]:
            found = [topic.segments_of(USER_TOPIC, index) for topic in self.topics.values()]
            return [sorted(each.all()) for each in found if each is not None]

        self.running.eventually(lambda: known() == [sorted(expected)] * len(self.topics), "all nodes know the segments")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MetadataCluster]:
    with cluster_of(tmp_path, [COMBINED] * 3, {PARTITIONS: str(COUNT)}) as running:
        yield MetadataCluster(running)
    assert running.failures == []


def finished(made: RemoteLogSegment) -> RemoteLogSegment:
    return made.with_update(update(made, FINISHED))


def test_the_topic_is_made_once_and_what_each_node_writes_all_nodes_know(cluster: MetadataCluster) -> None:
    cluster.need(0)
    image = cluster.running.nodes[1].image
    topic = image.topics[TOPIC]
    assert [len(each.replicas) for each in topic.partitions.values()] == [3] * COUNT
    configs = image.configs_of(TOPIC_RESOURCE, TOPIC)
    assert (configs["cleanup.policy"], configs["min.insync.replicas"]) == ("delete", "2")
    copies = [copy_of(number) for number in range(1, 4)]
    for node_id, made in enumerate(copies, 1):
        cluster.write(node_id, made, update(made, FINISHED))
    cluster.all_know(0, [finished(each) for each in copies])


def test_writes_go_on_after_their_leader_was_killed(cluster: MetadataCluster) -> None:
    cluster.need(0)
    rng, copies = random.Random(3), []
    leader = cluster.running.partition(TOPIC, partition_of(USER_TOPIC, 0, COUNT)).leader
    cluster.running.wait_for_isr(TOPIC, 3, partition_of(USER_TOPIC, 0, COUNT))
    others = [node_id for node_id in cluster.topics if node_id != leader]
    for number in range(1, 31):
        if number == 10:
            del cluster.topics[leader]
            cluster.running.kill(leader)
        made = copy_of(number)
        copies.append(made)
        cluster.write(rng.choice(others), made)
    cluster.all_know(0, copies)


def values(segments: list[RemoteLogSegment]) -> set[str]:
    return {written_value(each).hex() for each in segments}


@pytest.mark.java
def test_kafka_reads_what_we_write_and_we_read_what_kafka_writes(cluster: MetadataCluster) -> None:
    kafka = AskedOracle("RemoteLogMetadataManagerOracle.java", "RemoteLogMetadataManagerOracle")
    try:
        cluster.need(2)
        ours = [copy_of(number, partition=2) for number in range(1, 4)]
        cluster.write(2, *ours)
        cluster.all_know(2, ours)
        cluster.write(3, *[update(each, FINISHED) for each in ours])
        assert kafka.ask_for_line("start", cluster.running.bootstrap_servers, COUNT, 3) == "ok"
        assert kafka.ask_for_line("lead", *TOPIC_WORDS, 2) == "ok"
        listed = kafka.ask_for_line("list", *TOPIC_WORDS, 2).split(",")
        assert set(listed) == values([finished(each) for each in ours])
        theirs = [copy_of(number, partition=2) for number in range(4, 7)]
        for each in theirs:
            assert kafka.ask_for_line("put", written_value(each).hex()) == "ok"
            assert kafka.ask_for_line("put", written_value(update(each, FINISHED)).hex()) == "ok"
        cluster.all_know(2, [finished(each) for each in (*ours, *theirs)])
        more = copy_of(7, partition=2)
        cluster.write(1, more)
        eventually(
            lambda: written_value(more).hex() in kafka.ask_for_line("list", *TOPIC_WORDS, 2).split(","),
            "Kafka's manager has read it",
        )
        assert all(read_value(bytes.fromhex(each)) for each in listed)
    finally:
        kafka.close()
