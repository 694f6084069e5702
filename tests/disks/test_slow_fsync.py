"""Brokers whose every ``fsync`` takes 200 ms, as on ordinary disks, while all happens that touches files: no directory
goes offline, no node ends, and each record of an idempotent producer is there once and in its order."""

import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kpywire import error_codes
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from support.clusters import Cluster, kpybroker_node
from support.raw_client import RawClient

FSYNC_MS = 200
PARTITIONS = 6
SEGMENT_BYTES = 20_000
BATCH_BYTES = 10_000
"""A batch has to fit into a segment: after one that is refused for good librdkafka begins another epoch, in which it
sends batches again that may be in a log already. Apache Kafka gets these duplicates too. The same follows where a
leader that refused a batch as not yet leading sees the next one in flight, so there is one at a time."""
PATIENCE_S = 180.0
SOURCE = Path(__file__).with_name("slow_fsync.c")
PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "log.segment.delete.delay.ms": "500",
    "log.retention.check.interval.ms": "2000",
    "leader.imbalance.check.interval.seconds": "3600",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, which makes the library that delays fsync"),
]


class Load:
    """Records that an idempotent producer writes all the time, each with a number; the acknowledged ones are known by
    partition."""

    def __init__(self, servers: str) -> None:
        self.acknowledged: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.errors: list[str] = []
        self._is_over = threading.Event()
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
        times = {"delivery.timeout.ms": 1000 * int(PATIENCE_S), "max.in.flight": 1}
        self._producer = Producer({**settings, **times, "batch.size": BATCH_BYTES})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            value = (b"%d" % number).ljust(500, b".")
            self._producer.produce("load", value, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0.002)
            number += 1
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()].append(message.value())
        else:
            self.errors.append(str(error))

    def end(self) -> None:
        """Wait for all that is under way."""
        self._is_over.set()
        self._thread.join()


class Troubles:
    """Everything that touches files, by requests to any node of a cluster."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._rng = Random(seed)
        self._number = 0
        self.counts: dict[str, int] = {}

    def ask(self, request: Any, version: int) -> Any:
        node_id = self._rng.choice([each for each, node in self._cluster.nodes.items() if node.process is not None])
        with RawClient(self._cluster.places[node_id].port, timeout_s=60) as client:
            return client.call(request, version)

    def create(self, name: str, partitions: int) -> None:
        config = [CreatableTopicConfig(name="internal.segment.bytes", value=str(SEGMENT_BYTES))]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=3, assignments=[], configs=config
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000, validate_only=False), 7)
        assert answer.topics[0].error_code in (error_codes.NONE, error_codes.REQUEST_TIMED_OUT)

    def elect(self) -> None:
        """Other replicas are preferred, and lead."""
        partitions = range(PARTITIONS)
        wanted = [
            ReassignablePartition(partition_index=each, replicas=self._rng.sample([1, 2, 3], 3)) for each in partitions
        ]
        topics = [ReassignableTopic(name="load", partitions=wanted)]
        self.ask(AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=topics), 0)
        chosen = [TopicPartitions(topic="load", partitions=list(partitions))]
        self.ask(ElectLeadersRequest(election_type=0, topic_partitions=chosen, timeout_ms=30_000), 1)

    def move(self) -> None:
        """A partition moves to another directory of a node."""
        node_id = self._rng.choice([1, 2, 3])
        path = self._cluster.nodes[node_id].directory / self._rng.choice(["data", "more"])
        moved = AlterReplicaLogDirTopic(name="load", partitions=[self._rng.randrange(PARTITIONS)])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[moved])])
        if self._cluster.nodes[node_id].process is not None:
            with RawClient(self._cluster.places[node_id].port, timeout_s=60) as client:
                client.call(request, 2)

    def delete_a_topic(self) -> None:
        """A topic comes, gets records and goes."""
        self._number += 1
        name = f"passing-{self._number}"
        self.create(name, 2)
        settings = {"bootstrap.servers": self._cluster.bootstrap_servers, "delivery.timeout.ms": 20_000}
        producer = Producer({**settings, "batch.size": BATCH_BYTES})
        for number in range(200):
            producer.produce(name, bytes(500), partition=number % 2)
        producer.flush(5)
        self.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000), 6)

    def kill(self) -> None:
        """A node dies, and is cut to what its leaders have when it is back."""
        node = self._cluster.nodes[self._rng.choice([1, 2, 3])]
        assert node.process is not None
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()
        node.process = None
        time.sleep(1)
        node.launch()
        node.wait_until_it_answers()

    def one(self) -> None:
        """The next one."""
        chosen = self._rng.choices([self.elect, self.move, self.delete_a_topic, self.kill], weights=[6, 6, 2, 1])[0]
        self.counts[chosen.__name__] = self.counts.get(chosen.__name__, 0) + 1
        with suppress(OSError):  # that node has just died
            chosen()
        time.sleep(0.3)


def library(directory: Path) -> Path:
    path = directory / "slow_fsync.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(path), str(SOURCE), "-ldl"], check=True)
    return path


def read_back(servers: str, wanted: dict[int, list[bytes]]) -> None:
    """Every acknowledged record is there, once and in the order in which it was sent."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        for partition, expected in wanted.items():
            _, end = consumer.get_watermark_offsets(TopicPartition("load", partition), timeout=PATIENCE_S)
            consumer.assign([TopicPartition("load", partition, 0)])
            found: list[bytes] = []
            until_s = time.monotonic() + PATIENCE_S
            while len(found) < end and time.monotonic() < until_s:
                found += [each.value() for each in consumer.consume(1_000, 1.0) if each.error() is None]
            missing = set(expected) - set(found)
            assert not missing, f"partition {partition} lacks {len(missing)} of {len(expected)} records"
            twice = len(found) - len(set(found))
            assert found == expected, f"partition {partition}: {twice} of {len(found)} records twice, or out of order"
    finally:
        consumer.close()


def test_slow_disks_neither_fail_directories_nor_lose_records(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    duration_s = pytestconfig.getoption("--slow-disk-s")
    launcher = ("env", f"LD_PRELOAD={library(tmp_path)}", f"KPYBROKER_FSYNC_MS={FSYNC_MS}")

    def node_of(place: Any, properties: Any, directory: Path) -> Any:
        own = {**properties, "log.dirs": f"{directory}/data,{directory}/more", "metadata.log.dir": f"{directory}/data"}
        node = kpybroker_node(place._replace(launcher=launcher), own, directory)
        node.start_timeout_s = PATIENCE_S
        return node

    with Cluster(node_of, tmp_path / "cluster", properties=PROPERTIES) as cluster:
        troubles = Troubles(cluster, seed=1)
        troubles.create("load", PARTITIONS)
        load = Load(cluster.bootstrap_servers)
        try:
            until_s = time.monotonic() + duration_s
            while time.monotonic() < until_s:
                troubles.one()
                for node_id, node in cluster.nodes.items():
                    assert node.process is not None
                    assert node.process.poll() is None, f"node {node_id} has ended: {node.output.read_text()[-2000:]}"
        finally:
            load.end()
        assert not load.errors, f"{len(load.errors)} records were refused, the first by {load.errors[0]}"
        read_back(cluster.bootstrap_servers, load.acknowledged)
        for node in cluster.nodes.values():
            assert "is offline" not in node.output.read_text()
    print(f"{troubles.counts}, {sum(map(len, load.acknowledged.values()))} records")
