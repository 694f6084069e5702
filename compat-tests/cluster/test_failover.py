"""Nothing acknowledged is lost, doubled or out of order while nodes of a cluster fail (long form: `make failover`)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from failover import faults
from failover.faults import FAULTS, NEED_NETWORK, wait_for_in_sync
from failover.rounds import play
from failover.run import run
from failover.verdict import Verdict, judge, longest_gap_s
from support.clusters import PROGRAMS, Cluster
from support.namespaces import Network, why_no_namespaces
from support.secured import secured_cluster

HERE = ("writer", 0)
RECORDS = 4_000


@pytest.mark.parametrize(
    ("acknowledged", "found", "wrong"),
    [
        ([0, 1, 2], [0, 1, 2], {}),
        ([0, 2], [0, 1, 2], {}),
        ([0, 1, 2], [0, 2], {"lost": 1}),
        ([0], [], {"lost": 0}),
        ([0, 1], [0, 1, 1], {"doubled": 1}),
        ([0, 1, 2], [0, 1, 2, 0], {"doubled": 0}),
        ([0, 1, 2], [0, 2, 1], {"reordered": 1}),
    ],
)
def test_every_kind_of_wrong_is_found_and_nothing_else(
    acknowledged: list[int], found: list[int], wrong: dict[str, int]
) -> None:
    expected = {kind: [(HERE, number)] for kind, number in wrong.items()}
    verdict = judge({HERE: acknowledged}, {HERE: found})
    assert verdict == Verdict(
        len(acknowledged), expected.get("lost", []), expected.get("doubled", []), expected.get("reordered", [])
    )
    assert verdict.is_clean == (not wrong)


def test_records_of_another_partition_or_writer_are_not_mistaken_for_ones_own() -> None:
    verdict = judge({HERE: [0], ("other", 0): [0]}, {("writer", 1): [0], ("other", 0): [0]})
    assert verdict.lost == [(HERE, 0)]


def test_the_longest_gap_is_between_neighbours_whatever_their_order() -> None:
    assert longest_gap_s([1.0, 5.0, 2.0]) == 3.0
    assert longest_gap_s([]) == 0.0


SHORT = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""So that nobody has to be away for long."""


@pytest.fixture
def network(fault: str) -> Iterator[Network | None]:
    if fault not in NEED_NETWORK:
        yield None
        return
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with Network() as network:
        yield network


@pytest.mark.parametrize(
    "fault",
    [
        "kill-leader",
        *(pytest.param(each, marks=pytest.mark.slow) for each in FAULTS if each not in ("none", "kill-leader")),
    ],
)
@pytest.mark.parametrize("cluster_of", [Cluster, secured_cluster], ids=["plaintext", "secured"])
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(
    cluster_of: Callable[..., Cluster],
    fault: str,
    network: Network | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faults, "PAUSE_S", 5.0)
    with cluster_of(PROGRAMS["kpybroker"], tmp_path, properties=SHORT, network=network) as cluster:
        outcome = run(cluster, FAULTS[fault], records=RECORDS, seed=1, clients=["confluent-kafka", "kafka-python"])
    assert outcome.faults > 0
    assert (outcome.verdict.is_clean, outcome.failures) == (True, [])


GROUP = "readers"
TIMEOUT_S = 30.0


class Reader:
    """A transactional producer of librdkafka that commits the positions of a group."""

    def __init__(self, bootstrap_servers: str) -> None:
        common: dict[str, str | int] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self.consumer = Consumer({**common, "group.id": GROUP})
        self.producer = Producer({**common, "transactional.id": "reader"})
        self.committed = 0
        self.producer.init_transactions(TIMEOUT_S)

    def commit(self, topic: str) -> None:
        """One transaction."""
        self.producer.begin_transaction()
        positions = [TopicPartition(topic, 0, self.committed + 1)]
        self.producer.send_offsets_to_transaction(positions, self.consumer.consumer_group_metadata(), TIMEOUT_S)
        self.producer.commit_transaction(TIMEOUT_S)
        self.committed += 1

    def returns_from_commit(self, topic: str) -> bool:
        """Whether the transaction comes to an end, which no timeout of the client sees to."""
        thread = Thread(target=self.commit, args=(topic,), daemon=True)
        thread.start()
        thread.join(2 * TIMEOUT_S)
        return not thread.is_alive()


def test_a_client_asks_for_its_coordinator_again_after_that_was_away_for_a_moment(tmp_path: Path) -> None:
    """librdkafka waits forever for one whose broker was missing in Metadata once (its issues 5456 and 5511)."""
    with Cluster(PROGRAMS["kpybroker"], tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("read", 1, 3)])["read"].result(TIMEOUT_S)
        reader = Reader(cluster.bootstrap_servers)
        reader.commit("read")
        group = admin.describe_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S)
        node = cluster.nodes[group.coordinator.id]
        node.kill()
        wait_for_in_sync(cluster, "read", 2)
        assert sorted(reader.producer.list_topics("read", TIMEOUT_S).brokers) == [1, 2, 3]
        node.start()
        wait_for_in_sync(cluster, "read", 3)
        assert reader.returns_from_commit("read")
        assert reader.committed == 2


@pytest.mark.slow
def test_a_loop_of_transactions_goes_on_after_each_round_of_restarts(tmp_path: Path) -> None:
    with Cluster(PROGRAMS["kpybroker"], tmp_path) as cluster:
        played = play(cluster, "rolling", 2, seed=1)
    assert [each.trouble for each in played] == [None] * 2
