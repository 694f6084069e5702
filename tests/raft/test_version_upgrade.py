"""``kraft.version`` raised while the quorum runs: configured voters are written into the log, then can be changed."""

from random import Random
from typing import Any

import pytest
from host_cluster import Faults, HostCluster

from kpybroker.machines.raft.errors import CannotUpgrade
from kpybroker.machines.raft.version_upgrade import known_at_first, upgraded, with_update
from kpybroker.machines.raft.voter_changes import VotersRefusal
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory
from kpywire import error_codes


def voter(node_id: int, *levels: int) -> Voter:
    """One that tells of itself."""
    lowest, highest = levels or (0, 1)
    return Voter(node_id, bytes([node_id]) * 16, (VoterEndpoint("CONTROLLER", "here", node_id),), (lowest, highest))


CONFIGURED = VoterHistory([Voter(1), Voter(2)])


def settled(cluster: HostCluster, answers: list[Any]) -> tuple[int, str | None]:
    assert cluster.run(5_000, lambda: bool(answers))
    return answers[0].error_code, answers[0].error_message


def test_a_leader_knows_its_own_versions_before_those_of_others() -> None:
    known = known_at_first(CONFIGURED, voter(1))
    with pytest.raises(CannotUpgrade, match="because not all of the voters support it"):
        upgraded(CONFIGURED, known, 1)
    notified = with_update(known, voter(2))
    assert not isinstance(notified, VotersRefusal)
    assert upgraded(CONFIGURED, notified, 1) == {1: voter(1), 2: voter(2)}
    assert upgraded(CONFIGURED, notified, 0) is None
    with pytest.raises(CannotUpgrade):
        upgraded(CONFIGURED, {**notified, 2: voter(2, 0, 0)}, 1)


@pytest.mark.parametrize(
    ("says", "code"), [(voter(3), error_codes.VOTER_NOT_FOUND), (voter(2, 1, 1), error_codes.INVALID_REQUEST)]
)
def test_an_impossible_version_report_is_ignored(says: Voter, code: int) -> None:
    assert with_update(known_at_first(CONFIGURED, voter(1)), says) == VotersRefusal(code)


def test_configured_voters_become_ones_that_can_be_changed() -> None:
    cluster = HostCluster(6, 3, spare=1, dynamic=False)
    assert cluster.run(10_000, cluster.agreed)
    cluster.run(3_000)
    leader = cluster.leader
    assert leader is not None
    assert leader.host is not None
    host = leader.host
    assert settled(cluster, cluster.add_voter(host, 4))[0] == error_codes.UNSUPPORTED_VERSION
    assert settled(cluster, cluster.raise_kraft_version()) == (error_codes.NONE, None)
    assert cluster.run(5_000, cluster.agreed)
    for node in cluster.nodes.values():
        assert node.host is not None
        assert node.host.kraft_version == 1
        voters = node.host._quorum.history.voters
        assert {each.id: each.directory_id for each in voters.values()} == {
            node_id: cluster.directory_ids[node_id] for node_id in (1, 2, 3)
        }
    assert settled(cluster, cluster.add_voter(host, 4)) == (error_codes.NONE, None)
    for each in list(cluster.nodes.values()):
        cluster.crash(each)
    cluster.write()
    assert cluster.run(10_000, cluster.agreed), "after a restart of all the log says who votes"
    cluster.check()


def test_a_voter_that_was_never_heard_keeps_the_level_down() -> None:
    cluster = HostCluster(7, 3, dynamic=False)
    cluster.nodes[3].crash()
    assert cluster.run(10_000, lambda: cluster.leader is not None)
    cluster.run(3_000)
    code, message = settled(cluster, cluster.raise_kraft_version())
    assert code == error_codes.INVALID_UPDATE_VERSION
    assert "controller 3 has not registered, and may not support this feature" in (message or "")


@pytest.mark.parametrize("seed", range(200, 205))
def test_whatever_happens_while_the_level_is_raised(seed: int) -> None:
    cluster = HostCluster(seed, 3, spare=1, dynamic=False, faults=Faults.drawn(Random(seed)))
    for _ in range(150):
        cluster.write()
        if cluster.rng.random() < 0.1:
            cluster.raise_kraft_version()
        if cluster.rng.random() < 0.1:
            cluster.change_voters()
        cluster.run(cluster.rng.uniform(0, 100))
    cluster.heal()
    assert cluster.run(60_000, cluster.agreed), "with all nodes and the network back, the metadata goes on"
    cluster.run(3_000)
    assert settled(cluster, cluster.raise_kraft_version())[0] == error_codes.NONE
    cluster.write()
    assert cluster.run(10_000, cluster.agreed)
    assert {node.host.kraft_version for node in cluster.nodes.values() if node.host} == {1}
    cluster.check()
