"""Three nodes of one cluster: topics with three replicas, whichever node fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from running_cluster import COMBINED, RunningCluster, cluster_of

pytestmark = pytest.mark.slow
PATIENCE_S = 30


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with cluster_of(tmp_path, [COMBINED] * 3) as running:
        yield running
    assert running.failures == []


def create(cluster: RunningCluster, name: str, partitions: int = 1, **config: str) -> None:
    """A topic with three replicas, all in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    configs = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 3, config=configs)])[name].result(PATIENCE_S)
    for index in range(partitions):
        cluster.wait_for_isr(name, 3, index)


class Writer:
    """Writes numbered records, and remembers which were acknowledged."""

    def __init__(self, cluster: RunningCluster, topic: str, **settings: Any) -> None:
        self.topic = topic
        self.acknowledged: list[int] = []
        self.failures: list[Any] = []
        self._next = 0
        base = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({**base, **settings})

    def write(self, count: int) -> None:
        """Begin to write records."""
        for number in range(self._next, self._next + count):

            def done(error: Any, _message: Any, number: int = number) -> None:
                if error is None:
                    self.acknowledged.append(number)
                else:
                    self.failures.append(error)

            self._producer.produce(self.topic, str(number), partition=0, on_delivery=done)
        self._next += count

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0
        assert self.failures == []


def read(cluster: RunningCluster, topic: str) -> list[int]:
    """All records of partition 0."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "log_level": 0})
    try:
        place = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        consumer.assign([place])
        found: list[int] = []
        while len(found) < end:
            messages = consumer.consume(end, PATIENCE_S)
            assert messages
            found += [int(message.value() or b"") for message in messages]
        return found
    finally:
        consumer.close()


def test_written_records_are_identical_on_all_three_nodes(cluster: RunningCluster) -> None:
    create(cluster, "t")
    writer = Writer(cluster, "t")
    writer.write(1_000)
    writer.flush()
    assert read(cluster, "t") == list(range(1_000))
    first, second, third = cluster.eventually(
        lambda: None if len(set(found := logs_now(cluster, "t"))) > 1 else found, "equal logs"
    )
    assert first == second == third
    assert first


def logs_now(cluster: RunningCluster, topic: str) -> list[bytes]:
    """The same as `logs`, on the loop."""
    found = []
    for node in cluster.nodes.values():
        assert node.broker is not None
        log = node.broker.replicas.find(topic, 0).log
        if log is None:
            return [b"", b"differs"]
        path = Path(log.directory.path) / f"{topic}-0"
        found.append(b"".join(file.read_bytes() for file in sorted(path.glob("*.log")))[: log.size])
    return found


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_others_lead_when_the_leader_is_gone_and_nothing_acknowledged_is_lost(
    cluster: RunningCluster, how: str
) -> None:
    create(cluster, "t", min_insync_replicas="2")
    writer = Writer(cluster, "t")
    writer.write(500)
    writer.flush()
    leader = cluster.call(lambda: cluster.partition("t").leader)
    writer.write(500)
    getattr(cluster, how)(leader)
    writer.write(500)
    writer.flush()
    assert sorted(writer.acknowledged) == list(range(1_500))
    assert read(cluster, "t") == list(range(1_500))
    cluster.start(leader)
    cluster.wait_for_isr("t", 3)
    writer.write(10)
    writer.flush()
    cluster.eventually(lambda: len(set(logs_now(cluster, "t"))) == 1, "equal logs")


def test_without_enough_in_sync_nothing_is_acknowledged(cluster: RunningCluster) -> None:
    create(cluster, "t", min_insync_replicas="3")
    writer = Writer(cluster, "t", **{"delivery.timeout.ms": 3_000, "enable.idempotence": False, "retries": 0})
    leader = cluster.call(lambda: cluster.partition("t").leader)
    cluster.stop(next(node for node in (1, 2, 3) if node != leader))
    cluster.wait_for_isr("t", 2)
    writer.write(1)
    writer._producer.flush(PATIENCE_S)
    assert (writer.acknowledged, len(writer.failures)) == ([], 1)
