"""The vote of a node in each of its roles, and the requests of others that it refuses without looking further."""

import pytest

from kpybroker.machines.raft import voting
from kpybroker.machines.raft.answering import NEWEST_EPOCH
from kpybroker.machines.raft.events import Answer, Asked, ElectionPersisted
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochResponse,
    Known,
    OffsetAndEpoch,
    ReplicaKey,
    Request,
    Response,
    Vote,
    VoteResponse,
)
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import (
    NEVER,
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
from kpybroker.machines.raft.voters import Voter, VoterHistory, voter_set
from kpystorage.leader_epochs import LeaderEpochs
from kpywire import error_codes
from kpywire.uuid import ZERO_UUID

DISK = {number: bytes([number]) * 16 for number in range(1, 6)}
VOTERS = [Voter(number, DISK[number]) for number in (1, 2, 3)]
END = OffsetAndEpoch(20, 3)
EMPTY, LED = ElectionState(4), ElectionState(4, leader_id=3)
INVALID, FENCED = error_codes.INVALID_REQUEST, error_codes.FENCED_LEADER_EPOCH


def follower(*, has_fetched: bool) -> Follower:
    role = Follower(LED, NEVER)
    role.has_fetched = has_fetched
    return role


def asked_by(number: int, end: OffsetAndEpoch = END, *, pre_vote: bool = False, epoch: int = 4) -> Vote:
    return Vote(epoch, ReplicaKey(number, DISK[number]), end, pre_vote, ReplicaKey(1, DISK[1]))


def voted(number: int, directory_id: bytes) -> ElectionState:
    return ElectionState(4, voted_id=number, voted_directory_id=directory_id)


@pytest.mark.parametrize(
    ("role", "pre_vote", "real_vote"),
    [
        (Leader(ElectionState(4, 1), 20, [1, 2]), False, False),
        (follower(has_fetched=True), False, False),
        (follower(has_fetched=False), True, False),
        (Candidate(voted(1, DISK[1]), Votes([1, 2, 3])), True, False),
        (Resigned(ElectionState(4, 1)), True, False),
        (Unattached(EMPTY), True, True),
        (Unattached(LED), True, False),
        (Unattached(voted(2, DISK[2])), True, True),
        (Unattached(voted(2, ZERO_UUID)), True, True),
        (Unattached(voted(2, DISK[3])), True, False),
        (Unattached(voted(3, DISK[2])), True, False),
        (Prospective(EMPTY, Votes([1, 2, 3]), 0), True, True),
        (Prospective(voted(3, DISK[3]), Votes([1, 2, 3]), 0), True, False),
    ],
)
def test_each_role_grants_what_kafkas_does(role: Role, pre_vote: bool, real_vote: bool) -> None:
    assert voting.would_grant(role, asked_by(2, pre_vote=True), END) is pre_vote
    assert voting.would_grant(role, asked_by(2), END) is real_vote
    assert not voting.would_grant(role, asked_by(2, OffsetAndEpoch(19, 3), pre_vote=True), END)


@pytest.mark.parametrize(
    ("end", "is_complete"),
    [
        (END, True),
        (OffsetAndEpoch(21, 3), True),
        (OffsetAndEpoch(19, 3), False),
        (OffsetAndEpoch(5, 4), True),
        (OffsetAndEpoch(50, 2), False),
    ],
)
def test_only_a_candidate_with_a_complete_log_gets_the_vote(end: OffsetAndEpoch, is_complete: bool) -> None:
    for pre_vote in (False, True):
        assert voting.would_grant(Unattached(EMPTY), asked_by(2, end, pre_vote=pre_vote), END) is is_complete


def test_a_vote_that_was_given_is_given_again_to_the_same_replica_whatever_it_has() -> None:
    assert voting.would_grant(Unattached(voted(2, DISK[2])), asked_by(2, OffsetAndEpoch(0, 0)), END)


# Counting votes.


def test_more_than_half_of_the_voters_elect_and_a_voter_counts_once() -> None:
    for voters, needed in (([1], 1), ([1, 2], 2), ([1, 2, 3], 2), ([1, 2, 3, 4], 3), ([1, 2, 3, 4, 5], 3)):
        votes = Votes(voters)
        votes.note(9, granted=True)
        for number, voter in enumerate(voters, 1):
            assert votes.missing == voters[number - 1 :]
            votes.note(voter, granted=True)
            votes.note(voter, granted=True)
            votes.note(voter, granted=False)
            assert votes.is_won is (number >= needed)
        assert votes.granted == voters
        assert not votes.is_lost


def test_an_election_is_lost_when_too_few_voters_are_left_that_may_grant() -> None:
    votes = Votes([1, 2, 3, 4])
    votes.note(2, granted=False)
    assert not votes.is_lost
    votes.note(2, granted=True)
    assert votes.granted == [], "the first answer counts"
    votes.gone.add(2)
    assert not votes.is_lost, "a voter is lost once"
    votes.gone.add(3)
    assert votes.is_lost
    assert votes.missing == [1, 3, 4], "who is gone may come back and answer"


# The node that is asked.


def node(role: Role | None = None, *, static: bool = False) -> Quorum:
    """Node 1 of three, in epoch 4, with a log that ends at offset 20 of epoch 3."""
    history = VoterHistory([Voter(each.id) for each in VOTERS])
    if not static:
        history.add_kraft_version(-1, 1)
        history.add_voters(-1, voter_set(VOTERS))
    log = LogView(20, LeaderEpochs([(3, 0)]), synced_offset=20)
    quorum = Quorum(VOTERS[0], history, EMPTY, log)
    quorum.role = Unattached(EMPTY, 5_000) if role is None else role
    return quorum


def answer_of(quorum: Quorum, request: Request) -> Response:
    quorum.step(Asked("ticket", request), 100)
    while (ready := quorum.ready()) is not None:
        for outgoing in ready.outgoing:
            if isinstance(outgoing, Answer):
                assert outgoing.ticket == "ticket"
                return outgoing.response
        if ready.election is not None:
            quorum.step(ElectionPersisted(ready.election), 100)
    raise AssertionError("no answer")


def begin(epoch: int = 4, leader_id: int = 2, voter: ReplicaKey | None = None) -> BeginQuorumEpoch:
    return BeginQuorumEpoch(epoch, leader_id, ReplicaKey(1, DISK[1]) if voter is None else voter)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (asked_by(2, OffsetAndEpoch(20, 4)), INVALID),
        (asked_by(2, OffsetAndEpoch(20, 4), pre_vote=True), 0),
        (asked_by(2, OffsetAndEpoch(20, 5), pre_vote=True), INVALID),
        (asked_by(2, OffsetAndEpoch(-1, 3)), INVALID),
        (asked_by(2, OffsetAndEpoch(20, -1)), INVALID),
        (asked_by(2, OffsetAndEpoch(0, 0)), 0),
        (asked_by(2, epoch=3, end=OffsetAndEpoch(20, 2)), FENCED),
        (asked_by(2)._replace(replica=ReplicaKey(-1)), INVALID),
        (asked_by(2)._replace(replica=ReplicaKey(0)), 0),
        (asked_by(2, epoch=NEWEST_EPOCH), 0),
        (asked_by(2, epoch=NEWEST_EPOCH + 1), INVALID),
        (asked_by(2)._replace(voter=ReplicaKey(1, DISK[2])), error_codes.INVALID_VOTER_KEY),
        (asked_by(2)._replace(voter=ReplicaKey(2, DISK[1])), error_codes.INVALID_VOTER_KEY),
        (asked_by(2)._replace(voter=ReplicaKey(-1)), 0),
        (asked_by(2)._replace(voter=ReplicaKey(1)), 0),
        (begin(), 0),
        (begin(epoch=3), FENCED),
        (begin(epoch=NEWEST_EPOCH), 0),
        (begin(epoch=NEWEST_EPOCH + 1), INVALID),
        (begin(leader_id=-1), INVALID),
        (begin(leader_id=0), 0),
        (begin(voter=ReplicaKey(2, DISK[2])), error_codes.INVALID_VOTER_KEY),
        (EndQuorumEpoch(4, 2, ()), 0),
        (EndQuorumEpoch(3, 2, ()), FENCED),
        (EndQuorumEpoch(4, -1, ()), INVALID),
    ],
)
def test_a_claim_of_an_impossible_leader_is_refused(request_: Request, code: int) -> None:
    assert answer_of(node(), request_).known.error_code == code


@pytest.mark.parametrize("request_", [begin(leader_id=2), EndQuorumEpoch(4, 2, ())])
def test_a_second_leader_of_an_epoch_is_refused_and_the_first_one_stays(request_: Request) -> None:
    quorum = node(follower(has_fetched=True))
    assert answer_of(quorum, request_) == EpochResponse(Known(4, 3, INVALID))
    assert quorum.leader_id == 3
    assert answer_of(quorum, request_._replace(epoch=5)).known.error_code == 0  # type: ignore[union-attr,call-arg]
    assert (quorum.epoch, quorum.leader_id) == (5, 2)


def test_a_vote_is_saved_and_starts_the_wait_again() -> None:
    quorum = node()
    assert answer_of(quorum, asked_by(2)) == VoteResponse(Known(4), True)
    role = quorum.role
    assert isinstance(role, Unattached)
    assert role.election == voted(2, DISK[2])
    assert role.deadline_ms == 100 + quorum.timing.election_timeout_ms * 1.5
    assert answer_of(quorum, asked_by(3)) == VoteResponse(Known(4), False)
    assert quorum.role is role


def test_a_refused_vote_and_a_question_change_nothing() -> None:
    quorum = node()
    role = quorum.role
    assert answer_of(quorum, asked_by(2, OffsetAndEpoch(3, 3))) == VoteResponse(Known(4), False)
    assert answer_of(quorum, asked_by(2, pre_vote=True)) == VoteResponse(Known(4), True)
    assert quorum.role is role
    assert role.election == EMPTY


def test_a_newer_epoch_is_entered_even_if_the_vote_is_refused() -> None:
    quorum = node()
    assert answer_of(quorum, asked_by(2, OffsetAndEpoch(3, 3), epoch=6)) == VoteResponse(Known(6), False)
    assert isinstance(quorum.role, Unattached)
    assert quorum.role.election == ElectionState(6)
    assert quorum.role.deadline_ms == 5_000, "its wait goes on: it has heard of no leader"


@pytest.mark.parametrize("role", [Leader(ElectionState(4, 1), 20, [1, 2]), follower(has_fetched=True)])
def test_a_newer_epoch_starts_an_election_timeout(role: Role) -> None:
    quorum = node(role)
    answer_of(quorum, asked_by(2, OffsetAndEpoch(3, 3), epoch=6))
    assert isinstance(quorum.role, Unattached)
    assert quorum.role.deadline_ms == 100 + quorum.timing.election_timeout_ms * 1.5


# The leader ends its epoch.


@pytest.mark.parametrize(
    ("candidates", "wait_ms"),
    [
        ((1, 2), 0),
        ((2, 1), 1_000),
        ((2, 1, 3), 500),
        ((2, 3, 1), 1_000),
        ((2, 1, 3, 4, 5), 124),
        ((2, 3, 1, 4, 5), 248),
        ((1,), 0),
        ((2, 3), 1_000),
        ((), 1_000),
    ],
)
def test_the_best_candidate_stands_at_once_and_the_others_later(candidates: tuple[int, ...], wait_ms: int) -> None:
    quorum = node(follower(has_fetched=True))
    preferred = tuple(ReplicaKey(each, DISK[each]) for each in candidates)
    quorum._saving = EMPTY  # the disk is busy, so that nothing else happens
    quorum.step(Asked("ticket", EndQuorumEpoch(4, 3, preferred)), 100)
    role = quorum.role
    assert isinstance(role, Follower)
    assert role.deadline_ms == 100 + wait_ms
    assert role.is_abandoned
    assert not role.has_fetched, "it may vote for another at once"


def test_the_end_of_an_epoch_means_nothing_to_an_observer() -> None:
    quorum = node(follower(has_fetched=True))
    quorum._may_vote = False
    quorum.step(Asked("ticket", EndQuorumEpoch(4, 3, ())), 100)
    assert isinstance(quorum.role, Follower)
    assert not quorum.role.is_abandoned
    assert quorum.role.has_fetched


@pytest.mark.parametrize(
    ("static", "replica", "votes"),
    [
        (False, ReplicaKey(2, DISK[2]), True),
        (False, ReplicaKey(2, DISK[3]), False),
        (False, ReplicaKey(4, DISK[4]), False),
        (True, ReplicaKey(2, DISK[3]), True),
        (True, ReplicaKey(4, DISK[4]), False),
    ],
)
def test_a_voter_of_the_log_votes_with_its_own_disk(static: bool, replica: ReplicaKey, votes: bool) -> None:
    assert node(static=static).is_voting(replica) is votes
