"""The description that a node gives of its own place in the quorum, in every role, with or without a vote."""

import pytest

from kpybroker.machines.raft.events import ElectionPersisted, LogSynced
from kpybroker.machines.raft.local_state import LocalState, local_state
from kpybroker.machines.raft.log_view import log_view
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import (
    Candidate,
    ElectionState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    Votes,
)
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory

ME, OTHER = (Voter(number, endpoints=(VoterEndpoint("CONTROLLER", "localhost", 9090 + number),)) for number in (4, 5))
NO_VOTE, MINE, OTHERS = ElectionState(3), ElectionState(3, voted_id=4), ElectionState(3, voted_id=5)
LED = ElectionState(3, leader_id=5)


@pytest.mark.parametrize(
    ("role", "name", "leader_id", "voted_id"),
    [
        (Unattached(NO_VOTE), "unattached", -1, -1),
        (Unattached(OTHERS), "unattached-voted", -1, 5),
        (Prospective(NO_VOTE, Votes([4, 5]), 0), "prospective", -1, -1),
        (Prospective(OTHERS, Votes([4, 5]), 0), "prospective-voted", -1, 5),
        (Candidate(MINE, Votes([4, 5])), "candidate", -1, 4),
        (Leader(ElectionState(3, leader_id=4), 7, [4, 5]), "leader", 4, 4),
        (Follower(LED, 0), "follower", 5, -1),
        (Resigned(MINE), "unattached-voted", -1, 4),
    ],
)
def test_a_role_has_kafkas_name(role: Role, name: str, leader_id: int, voted_id: int) -> None:
    quorum = Quorum(ME, VoterHistory([ME, OTHER]), NO_VOTE, log_view(7, 3))
    quorum.role = role
    assert local_state(quorum) == LocalState(name, leader_id, 3, voted_id, -1, 7)


def test_a_follower_that_is_not_a_voter_is_an_observer() -> None:
    quorum = Quorum(ME, VoterHistory([OTHER]), LED, log_view(7, 3))
    quorum.role = Follower(LED, 0)
    assert local_state(quorum).role == "observer"


def test_a_committed_offset_is_known_at_once() -> None:
    quorum = Quorum(ME, VoterHistory([ME]), ElectionState(), log_view(0, -1))
    quorum.start()
    vote = quorum.ready()
    assert vote is not None
    assert vote.election is not None
    quorum.step(ElectionPersisted(vote.election), 0)
    assert local_state(quorum) == LocalState("leader", 4, 1, 4, -1, 1)
    quorum.step(LogSynced(1), 0)
    assert local_state(quorum).high_watermark == 1
