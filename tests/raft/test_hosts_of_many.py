"""The production shell of the quorum in several nodes: elections, replication, snapshots, crashes, partitions."""

from random import Random

import pytest
from host_cluster import Faults, HostCluster


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


def test_who_was_away_for_long_is_given_a_snapshot() -> None:
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


@pytest.mark.parametrize("seed", range(20))
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
