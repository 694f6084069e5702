"""The production shell of the quorum in several nodes: elections, replication, snapshots, crashes, partitions."""

from random import Random
from typing import Any

import pytest
from host_cluster import REQUEST_TIMEOUT_MS, Faults, HostCluster

from kpywire import error_codes


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_controller_becomes_active_and_all_nodes_publish_the_same(dynamic: bool) -> None:
    cluster = HostCluster(1, 3, observers=1, dynamic=dynamic)
    assert cluster.run(10_000, cluster.agreed)
    for _ in range(20):
        cluster.write()
        cluster.run(10)
    assert cluster.run(5_000, cluster.agreed)
    assert len(cluster.acknowledged) == 20
    follower = cluster.nodes[4].host
    assert follower is not None
    assert {1, 2, 3} <= set(follower.image.controllers)
    cluster.check()


def test_a_node_that_was_away_for_long_gets_a_snapshot() -> None:
    cluster = HostCluster(2, 3, observers=1, dynamic=True)
    assert cluster.run(10_000, cluster.agreed)
    away = next(node for node in cluster.nodes.values() if node is not cluster.leader)
    away.crash()
    for _ in range(150):
        cluster.write()
        cluster.run(30)
    leader = cluster.leader
    assert leader is not None
    assert leader.host is not None
    start_offset = leader.host._metadata_log.start_offset
    assert start_offset > 100
    away.start()
    assert away.host is not None
    assert away.host._metadata_log.next_offset < start_offset
    assert cluster.run(10_000, cluster.agreed)
    assert away.host._metadata_log.start_offset >= start_offset
    cluster.check()


@pytest.mark.seeds(0, 8)
def test_whatever_happens_what_was_acknowledged_stays(seed: int) -> None:
    cluster = HostCluster(
        seed, 3 + 2 * (seed % 2), observers=seed % 3 == 0, dynamic=seed % 4 < 2, faults=Faults.drawn(Random(seed))
    )
    for _ in range(150):
        cluster.write()
        cluster.run(cluster.rng.uniform(0, 100))
    cluster.heal()
    assert cluster.run(60_000, cluster.agreed), "with all nodes and the network back, the metadata goes on"
    cluster.write()
    assert cluster.run(5_000, cluster.agreed)
    cluster.check()


def test_one_node_grows_to_three_and_shrinks_again() -> None:
    cluster = HostCluster(3, 1, spare=2, dynamic=True)
    assert cluster.run(10_000, cluster.agreed)
    first = cluster.nodes[1].host
    assert first is not None
    for node_id in (2, 3):
        cluster.write()
        answers = cluster.add_voter(first, node_id)
        assert cluster.run(2_000, lambda answers=answers: bool(answers))
        assert (answers[0].error_code, answers[0].error_message) == (error_codes.NONE, None)
    assert set(first._quorum.history.voters) == {1, 2, 3}
    answers = cluster.remove_voter(first, 1)
    assert cluster.run(2_000, lambda: bool(answers))
    assert answers[0].error_code == error_codes.NONE
    assert cluster.run(5_000, cluster.agreed)
    leader = cluster.leader
    assert leader is not None
    assert leader.id in (2, 3)
    cluster.write()
    assert cluster.run(5_000, cluster.agreed)
    cluster.nodes[1].crash()
    cluster.write()
    assert cluster.run(5_000, lambda: max(cluster.acknowledged) == cluster.asked), "two of two are enough"


def test_voters_are_not_changed_where_that_could_do_harm() -> None:
    cluster = HostCluster(4, 3, spare=1, dynamic=True)
    assert cluster.run(10_000, cluster.agreed)
    leader = cluster.leader
    assert leader is not None
    assert leader.host is not None
    host = leader.host

    def settled(answers: list[Any]) -> int:
        assert cluster.run(REQUEST_TIMEOUT_MS + 100, lambda: bool(answers))
        return int(answers[0].error_code)

    assert settled(cluster.add_voter(host, 1)) == error_codes.DUPLICATE_VOTER
    assert settled(cluster.remove_voter(host, 4)) == error_codes.VOTER_NOT_FOUND
    cluster.nodes[4].crash()
    assert settled(cluster.add_voter(host, 4)) == error_codes.REQUEST_TIMED_OUT, "nobody is there"
    peers, there = host._voter_requests._peers, cluster.endpoint(4)
    assert peers is not None
    assert (there.host, there.port) not in peers, "who was asked once is not kept"
    cluster.nodes[4].start()
    assert cluster.run(10_000, cluster.agreed)
    others = [voter_id for voter_id in (1, 2, 3) if voter_id != leader.id]
    answers = [cluster.remove_voter(host, voter_id) for voter_id in others]
    assert settled(answers[1]) == error_codes.REQUEST_TIMED_OUT, "one change at a time"
    assert settled(answers[0]) == error_codes.NONE
    follower = cluster.nodes[others[1]].host
    assert follower is not None
    assert settled(cluster.remove_voter(follower, leader.id)) == error_codes.NOT_LEADER_OR_FOLLOWER


@pytest.mark.seeds(100, 6)
def test_whatever_happens_while_voters_change(seed: int) -> None:
    cluster = HostCluster(
        seed, 1 + seed % 3, spare=2, observers=seed % 2, dynamic=True, faults=Faults.drawn(Random(seed))
    )
    for _ in range(150):
        cluster.write()
        if cluster.rng.random() < 0.2:
            cluster.change_voters()
        cluster.run(cluster.rng.uniform(0, 100))
    cluster.heal()
    assert cluster.run(60_000, cluster.agreed), "with all nodes and the network back, the metadata goes on"
    cluster.write()
    assert cluster.run(5_000, cluster.agreed)
    cluster.check()
