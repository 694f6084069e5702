"""Controllers that move to another listener: nodes on the new one and nodes on the old one are one quorum."""

import pytest
from host_cluster import CONTROLLER, SAFE, HostCluster


def use(cluster: HostCluster, node_id: int, *listener_names: str) -> None:
    """Restart a node with these listeners; it uses the first one."""
    node = cluster.nodes[node_id]
    if node.is_up:
        node.crash()
    node.listener_names = listener_names
    node.start()
    assert cluster.run(20_000, cluster.agreed)


def lead(cluster: HostCluster, node_id: int) -> None:
    """Restart the leaders until a node leads."""
    for _ in range(50):
        leader = cluster.leader
        assert leader is not None
        if leader.id == node_id:
            return
        leader.crash()
        cluster.run(3_000)
        leader.start()
        assert cluster.run(20_000, cluster.agreed)
    raise AssertionError(f"node {node_id} never led")


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("leader_id", [1, 3], ids=["it moved", "it did not move"])
def test_whoever_leads_is_followed_by_those_that_moved_and_those_that_did_not(
    seed: int, leader_id: int, dynamic: bool
) -> None:
    cluster = HostCluster(seed, 3, observers=1, dynamic=dynamic)
    assert cluster.run(10_000, cluster.agreed)
    for node_id in cluster.nodes:
        use(cluster, node_id, CONTROLLER, SAFE)
    for node_id in (1, 4):
        use(cluster, node_id, SAFE, CONTROLLER)
    lead(cluster, leader_id)
    leader = cluster.leader
    assert leader is not None
    assert leader.host is not None
    epoch, misled = leader.host.active_epoch, cluster.misled
    for _ in range(20):
        cluster.write()
        cluster.run(1_000)
    assert cluster.run(5_000, cluster.agreed)
    assert len(cluster.acknowledged) == 20
    assert leader.host.active_epoch == epoch, "the leader stays"
    assert cluster.misled == misled, "each node knows where the others listen for it"
    cluster.check()
