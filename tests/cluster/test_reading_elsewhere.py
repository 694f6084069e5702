"""Consumers of a real client library read from the replica in their rack (KIP-392)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from running_cluster import COMBINED, RunningCluster

from kpybroker.config.broker import BrokerConfig
from kpybroker.requests.serving.preferred_replica import RACK_AWARE

pytestmark = pytest.mark.slow
PATIENCE_S = 30
RECORDS = 2_000
VALUE = b"v" * 100


class Racks(RunningCluster):
    """Each node is in a rack of its own."""

    def config(self, node_id: int) -> BrokerConfig:
        self._settings = {"broker.rack": f"rack{node_id}", "replica.selector.class": RACK_AWARE}
        return super().config(node_id)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Racks]:
    running = Racks(tmp_path, [COMBINED] * 3)
    try:
        running.start(1, 2, 3)
        yield running
    finally:
        running.close()


def sent_to_consumers(cluster: Racks, topic: str) -> dict[int, int]:
    """Bytes of the topic, by node."""

    def look() -> dict[int, int]:
        brokers = {node_id: node.broker for node_id, node in cluster.nodes.items()}
        return {node_id: each.replicas.topics[topic].bytes_out for node_id, each in brokers.items() if each is not None}

    sent: dict[int, int] = cluster.call(look)
    return sent


def test_a_consumer_reads_from_the_replica_in_its_rack_and_from_another_when_that_is_gone(cluster: Racks) -> None:
    servers: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    admin = AdminClient(servers)
    created = admin.create_topics([NewTopic("t", num_partitions=1, replica_assignment=[[1, 2, 3]])])
    created["t"].result(PATIENCE_S)
    cluster.wait_for_isr("t", 3, 0)
    producer = Producer({**servers, "acks": "all"})
    for _ in range(RECORDS):
        producer.produce("t", VALUE, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {
            **servers,
            "group.id": "g",
            "client.rack": "rack3",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        read: list[Any] = []
        while len(read) < RECORDS:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            read.append(message.offset())
        assert read == list(range(RECORDS))
        sent = sent_to_consumers(cluster, "t")
        assert sent[3] >= RECORDS * len(VALUE)
        assert (sent[1], sent[2]) == (0, 0)
        cluster.kill(3)
        producer.produce("t", VALUE, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.offset() == RECORDS
    finally:
        consumer.close()
    assert cluster.failures == []
