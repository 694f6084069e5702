"""One of several log directories of a node fails: others lead its partitions, and nobody waits for what lay in it. One
that was emptied is filled again."""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from running_cluster import CLUSTER_ID, COMBINED, RunningCluster

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors

pytestmark = pytest.mark.slow
PATIENCE_S = 30
PARTITIONS = 9
FAILING = 2


class ClusterOfManyDirectories(RunningCluster):
    """Every node has three log directories; the metadata log lies in the first."""

    def directories(self, node_id: int) -> list[str]:
        return [str(self._directory / str(node_id) / name) for name in ("first", "second", "third")]

    def config(self, node_id: int) -> BrokerConfig:
        directories = self.directories(node_id)
        own = {"log.dirs": ",".join(directories), "metadata.log.dir": directories[0]}
        return BrokerConfig.load(None, {**super().config(node_id).static, **own})

    def _format(self, node_id: int) -> None:
        for directory in self.directories(node_id):
            Path(directory).mkdir(parents=True)
        self.format_those_that_are_not(node_id)

    def format_those_that_are_not(self, node_id: int) -> None:
        """Format them as `kpybroker format --ignore-formatted` does."""
        directories = self.directories(node_id)
        levels = choose_levels(None, {}, dynamic_quorum=False)
        formatting = Formatting(CLUSTER_ID, node_id, directories, directories[0], levels, None)
        now_ms = int(time.time() * 1000)
        format_directories(RealDisk(Descriptors(16)), formatting, random.Random(now_ms), now_ms, ignore_formatted=True)

    def ends(self, node_id: int, topic: str) -> dict[int, int]:
        """The ends of the logs of a topic's partitions that a node has."""
        replicas = self.nodes[node_id].broker.replicas.topics[topic].replicas  # type: ignore[union-attr]
        return {index: each.role.log.log_end_offset for index, each in replicas.items()}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterOfManyDirectories]:
    settings = {
        "min.insync.replicas": "2",
        "replica.high.watermark.checkpoint.interval.ms": "100",
        # on a busy machine a node is slow, and not away: then it would leave all in-sync sets
        "broker.session.timeout.ms": str(4 * PATIENCE_S * 1000),
        "replica.lag.time.max.ms": str(4 * PATIENCE_S * 1000),
    }
    running = ClusterOfManyDirectories(tmp_path, [COMBINED] * 3, settings)
    try:
        running.start(1, 2, 3)
        yield running
    finally:
        running.close()
    assert running.failures == []


def test_a_failed_directory_takes_only_its_own_partitions_offline(
    cluster: ClusterOfManyDirectories,
) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(PATIENCE_S)
    for index in range(PARTITIONS):
        cluster.wait_for_isr("t", 3, index)
    producer = Producer({**servers, "acks": "all", "request.timeout.ms": 2 * PATIENCE_S * 1000})
    acknowledged: list[int] = []

    def write() -> int:
        """One record to each partition; how many were not acknowledged in good time."""
        for index in range(PARTITIONS):
            producer.produce("t", b"v", partition=index, on_delivery=lambda error, _: acknowledged.append(not error))
        return int(producer.flush(PATIENCE_S / 2))

    assert write() == 0
    third = Path(cluster.directories(FAILING)[2])
    failed = {int(each.name.removeprefix("t-")) for each in third.glob("t-*")}
    assert len(failed) == PARTITIONS // 3
    third.rename(third.with_name("elsewhere"))

    def is_out_of_sync() -> set[int]:
        return {index for index in range(PARTITIONS) if FAILING not in cluster.partition("t", index).isr}

    cluster.eventually(lambda: is_out_of_sync() >= failed, "leaving the in-sync sets")
    assert is_out_of_sync() == failed
    leaders = {index: cluster.partition("t", index).leader for index in range(PARTITIONS)}
    assert FAILING not in {leaders[index] for index in failed}
    assert FAILING in leaders.values(), "what lies in the other directories it still leads"
    assert write() == 0, "its broker lives, but what lay in that directory is waited for by nobody"
    assert all(acknowledged)


def test_a_directory_that_was_emptied_is_filled_again_from_the_leaders(cluster: ClusterOfManyDirectories) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(PATIENCE_S)
    for index in range(PARTITIONS):
        cluster.wait_for_isr("t", 3, index)
    producer = Producer({**servers, "acks": "all"})
    for number in range(50 * PARTITIONS):
        producer.produce("t", b"v", partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    cluster.stop(FAILING)
    third = Path(cluster.directories(FAILING)[2])
    lost = sorted(each.name for each in third.glob("t-*"))
    assert len(lost) == PARTITIONS // 3
    shutil.rmtree(third)
    third.mkdir()
    cluster.format_those_that_are_not(FAILING)
    cluster.start(FAILING)
    for index in range(PARTITIONS):
        cluster.wait_for_isr("t", 3, index)
    assert cluster.call(lambda: cluster.ends(FAILING, "t")) == dict.fromkeys(range(PARTITIONS), 50)
