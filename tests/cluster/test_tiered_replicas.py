"""Replicas of tiered topics in a real cluster with one store: a new one has only what is not copied, and serves all; a
node whose disk was lost serves what the store has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from running_cluster import COMBINED, RunningCluster, cluster_of

from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from support.raw_client import RawClient

pytestmark = pytest.mark.slow

PATIENCE_S = 60
TOPIC = "t"
RECORDS = 60
VALUE_BYTES = 100_000
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.manager.task.interval.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "2",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
}
CONFIGS = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    store = tmp_path / "store"
    store.mkdir()
    with cluster_of(tmp_path, [COMBINED, "broker", "broker"], {**SETTINGS, "rsm.config.dir": str(store)}) as running:
        yield running
    assert running.failures == []


def ask(cluster: RunningCluster, request: Any, version: int) -> Any:
    with RawClient(cluster.ports[1][0]) as client:
        return client.call(request, version)


def create(cluster: RunningCluster, replicas: list[int]) -> None:
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()],
    )
    (made,) = ask(cluster, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics
    assert made.error_code == 0, made.error_message
    cluster.wait_for_isr(TOPIC, len(replicas))


def write(cluster: RunningCluster, first: int, count: int) -> list[int]:
    """Write numbered records; their offsets."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    offsets: list[int] = []

    def done(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d:" % number + bytes(VALUE_BYTES), partition=0, on_delivery=done)
        assert producer.flush(PATIENCE_S) == 0
    return offsets


def read(cluster: RunningCluster) -> list[int]:
    """The numbers of all records."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "log_level": 0})
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE_S)
        consumer.assign([TopicPartition(TOPIC, 0, first)])
        found: list[int] = []
        while len(found) < end - first:
            messages = consumer.consume(end, PATIENCE_S)
            assert messages
            found += [int((message.value() or b"").partition(b":")[0]) for message in messages]
        return found
    finally:
        consumer.close()


def log_of(cluster: RunningCluster, node_id: int) -> Any:
    broker = cluster.nodes[node_id].broker
    assert broker is not None
    return broker.replicas.find(TOPIC, 0).log


def wait_for_copies(cluster: RunningCluster, node_id: int) -> int:
    """Wait until only the active segment is on the disk; where it begins."""

    def start() -> int | None:
        log = log_of(cluster, node_id)
        return None if log is None or len(log.segments) > 1 else log.local_log_start_offset

    found: int = cluster.eventually(start, "copies of all closed segments")
    return found


def test_a_new_replica_leads_and_serves_everything(cluster: RunningCluster) -> None:
    create(cluster, [1, 2])
    write(cluster, 0, RECORDS)
    begins = wait_for_copies(cluster, cluster.call(lambda: cluster.partition(TOPIC).leader))
    assert begins > RECORDS // 2
    moved = ReassignableTopic(name=TOPIC, partitions=[ReassignablePartition(partition_index=0, replicas=[3])])
    answer = ask(cluster, AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=10_000), 0)
    assert answer.error_code == 0
    cluster.eventually(lambda: [*cluster.partition(TOPIC).replicas] == [3] == [cluster.partition(TOPIC).leader])
    log = cluster.call(lambda: log_of(cluster, 3))
    assert log.local_log_start_offset >= begins
    assert log.log_start_offset == 0
    assert write(cluster, RECORDS, 5) == list(range(RECORDS, RECORDS + 5))
    assert read(cluster) == list(range(RECORDS + 5))


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_node_whose_disk_was_lost_serves_what_the_store_has(cluster: RunningCluster, how: str) -> None:
    create(cluster, [3])
    write(cluster, 0, RECORDS)
    begins = wait_for_copies(cluster, 3)
    getattr(cluster, how)(3)
    cluster.lose_disk(3)
    cluster.start(3)
    cluster.eventually(lambda: cluster.partition(TOPIC).leader == 3)
    (offset,) = write(cluster, RECORDS, 1)
    assert offset == begins, "what was not copied is lost, and no offset of the store is given again"
    assert read(cluster) == [*range(begins), RECORDS]
