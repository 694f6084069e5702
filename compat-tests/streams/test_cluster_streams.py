"""Kafka Streams with ``exactly_once_v2`` on three nodes: leaders and coordinators are killed and started again.

Its topics have three replicas. The application is never started again: it retries by itself, and its totals are exact.
"""

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from cluster.test_cluster_clients import TRANSACTION, coordinator
from failover.faults import kill, kill_leader, wait_for_in_sync
from kpybroker.client.client import Client
from kpywire.messages.list_transactions import ListTransactionsRequest
from streams.test_streams import PARTITIONS, Payments, Totals, instance
from support.clusters import PROGRAMS, Cluster
from support.topics import create_topic
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

APPLICATION: Final = "account-totals"
SETTINGS: Final = {"default.replication.factor": "3", "min.insync.replicas": "2"}


def kill_group_coordinator(cluster: Cluster, _rng: random.Random) -> None:
    kill(cluster, coordinator(cluster, APPLICATION))


def kill_transaction_coordinator(cluster: Cluster, _rng: random.Random) -> None:
    """Kill the transaction coordinator of the application's only producer."""
    ids = {each for node in cluster.nodes.values() for each in transactional_ids(node.bootstrap_servers)}
    (its_own,) = (each for each in ids if each.startswith(APPLICATION))
    kill(cluster, coordinator(cluster, its_own, TRANSACTION))


def transactional_ids(server: str) -> list[str]:
    """The transactional ids that a node coordinates."""
    with Client(server) as client:
        answer = client.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
    return [each.transactional_id for each in answer.transaction_states]


def leader_of(topic: str) -> Callable[[Cluster, random.Random], None]:
    """Kill the leader of some partition of it."""
    return lambda cluster, rng: kill_leader(cluster, topic, rng)


KILLS: Final[Mapping[str, Callable[[Cluster, random.Random], None]]] = {
    "leader of the input": leader_of("payments"),
    "coordinator of the group": kill_group_coordinator,
    "leader of the repartition topic": leader_of(f"{APPLICATION}-by-account-repartition"),
    "coordinator of the transactions": kill_transaction_coordinator,
    "leader of the changelog": leader_of(f"{APPLICATION}-totals-changelog"),
    "leader of the output": leader_of("totals"),
}


def test_totals_are_exact_though_leaders_and_coordinators_are_killed(
    target: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if target not in PROGRAMS:
        pytest.skip("kills nodes, so it needs a cluster of its own")
    rng = random.Random(pytestconfig.getoption("--seed"))
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(PROGRAMS[target], tmp_path / "cluster", properties=SETTINGS))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for topic in ("payments", "totals"):
            create_topic(admin, topic, PARTITIONS)
        payments, totals = Payments(cluster.bootstrap_servers), Totals(cluster.bootstrap_servers)
        stack.callback(totals.close)
        application = stack.enter_context(instance(tmp_path / "application", cluster.bootstrap_servers))
        with payments.going_on():
            eventually(partial(application.times, "RUNNING"), "the application", 120)
            eventually(partial(totals.reach, payments.count), "the first totals", 90)
            for principals in rng.sample(sorted(KILLS), len(KILLS)):
                KILLS[principals](cluster, rng)
                eventually(partial(totals.reach, payments.count), f"totals after the kill of the {principals}", 180)
                for topic in admin.list_topics(timeout=30).topics:
                    wait_for_in_sync(cluster, topic, len(cluster.nodes))
        eventually(partial(totals.reach, payments.count), "the last totals", 120)
        assert (application.process.poll(), application.times("ERROR")) == (None, 0)
    counts = {account: [count for count, _ in seen] for account, seen in totals.seen.items()}
    assert counts == {account: [*range(1, len(amounts) + 1)] for account, amounts in payments.sent.items()}
    sums = {account: seen[-1][1] for account, seen in totals.seen.items()}
    assert sums == {account: sum(amounts) for account, amounts in payments.sent.items()}
