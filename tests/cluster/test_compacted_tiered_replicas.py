"""A compacted topic of a real cluster in a store: each new leader has the newest values, and compacts on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_tiered_replicas
from confluent_kafka import Consumer, Producer, TopicPartition
from running_cluster import COMBINED, RunningCluster, cluster_of
from test_tiered_replicas import PATIENCE_S, SETTINGS, TOPIC, ask, create, log_of

from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

pytestmark = pytest.mark.slow

KEYS = 12
RECORDS = 90
VALUE_BYTES = 100_000
COMPACTED = {
    **SETTINGS,
    "kpybroker.remote.compacted.enable": "true",
    "log.cleaner.backoff.ms": "50",
}
CONFIGS = {
    "remote.storage.enable": "true",
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "100",
}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCluster]:
    monkeypatch.setattr(test_tiered_replicas, "CONFIGS", CONFIGS)
    store = tmp_path / "store"
    store.mkdir()
    with cluster_of(tmp_path, [COMBINED, "broker", "broker"], {**COMPACTED, "rsm.config.dir": str(store)}) as running:
        yield running
    assert running.failures == []


def write(cluster: RunningCluster, first: int, count: int) -> None:
    """Write numbered records with a few keys; every seventh is a tombstone."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    errors: list[Any] = []
    for number in range(first, first + count):
        value = None if number % 7 == 0 else b"%d:" % number + bytes(VALUE_BYTES)
        producer.produce(
            TOPIC, value, key=b"%d" % (number % KEYS), partition=0, on_delivery=lambda error, _: errors.append(error)
        )
        assert producer.flush(PATIENCE_S) == 0
    assert set(errors) == {None}


def view(cluster: RunningCluster) -> dict[int, int]:
    """The newest number of every key, read from the beginning to the end."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    consumer = Consumer({**servers, "group.id": "reader", "enable.auto.commit": False})
    found: dict[int, int | None] = {}
    try:
        place = TopicPartition(TOPIC, 0)
        first, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        consumer.assign([TopicPartition(TOPIC, 0, first)])
        last = -1
        while last < end - 1:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            assert message.offset() > last
            last = message.offset()
            value = message.value()
            found[int(message.key())] = None if value is None else int(value.partition(b":")[0])
    finally:
        consumer.close()
    return {key: number for key, number in found.items() if number is not None}


def expected(count: int) -> dict[int, int]:
    newest = {number % KEYS: number for number in range(count)}
    return {key: number for key, number in newest.items() if number % 7}


def wait_for_few_segments(cluster: RunningCluster) -> None:
    """Wait until the disk has little, and the store is compacted."""

    def is_small() -> bool:
        leader = cluster.partition(TOPIC).leader
        broker = cluster.nodes[leader].broker if leader > 0 else None
        if broker is None or broker.remote_log is None:
            return False
        states = [each for each in broker.remote_log.states() if each.topic == TOPIC]
        return bool(states) and len(log_of(cluster, leader).segments) <= 2 and 0 < states[0].remote_bytes < 4 << 20

    cluster.eventually(is_small, "a compacted store")


def test_each_leader_has_the_newest_values_and_compacts_what_others_have_copied(cluster: RunningCluster) -> None:
    create(cluster, [1, 2])
    write(cluster, 0, RECORDS)
    wait_for_few_segments(cluster)
    assert view(cluster) == expected(RECORDS)
    moved = ReassignableTopic(name=TOPIC, partitions=[ReassignablePartition(partition_index=0, replicas=[3, 2])])
    answer = ask(cluster, AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=10_000), 0)
    assert answer.error_code == 0
    cluster.eventually(lambda: [*cluster.partition(TOPIC).replicas] == [3, 2])
    cluster.wait_for_isr(TOPIC, 2)
    write(cluster, RECORDS, RECORDS)
    assert view(cluster) == expected(2 * RECORDS)
    leader = cluster.call(lambda: cluster.partition(TOPIC).leader)
    cluster.kill(leader)
    cluster.eventually(lambda: cluster.partition(TOPIC).leader not in (leader, -1))
    write(cluster, 2 * RECORDS, 20)
    assert view(cluster) == expected(2 * RECORDS + 20)
    wait_for_few_segments(cluster)
    assert view(cluster) == expected(2 * RECORDS + 20)
