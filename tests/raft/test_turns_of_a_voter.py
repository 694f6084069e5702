"""One node of three in time: when it begins, asks for votes, stands, gives up and resigns, step by step."""

import pytest
from one_of_three import (
    DISK,
    DRAWN_MS,
    ELECTION_MS,
    FETCH_MS,
    LED,
    NEW,
    SNAPSHOT,
    VOTERS,
    batch,
    candidate,
    grant,
    in_the_log,
    leader,
    node,
    prospective,
    sent,
)

from kpybroker.machines.raft.events import Answered, Asked, ElectionPersisted, LogSynced, Send, Tick, Unanswered
from kpybroker.machines.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    Known,
    OffsetAndEpoch,
    ReplicaKey,
    Vote,
)
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.quorum_state import FIRST_BACKOFF_MS
from kpybroker.machines.raft.roles import (
    NEVER,
    Candidate,
    ElectionState,
    Follower,
    HeardLeader,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from kpybroker.machines.raft.timing import DEFAULT_TIMING
from kpybroker.machines.raft.voters import Voter, voter_set

# The start.


@pytest.mark.parametrize(
    ("election", "role", "leader_id", "deadline_ms"),
    [
        (NEW, Unattached, -1, ELECTION_MS + DRAWN_MS),
        (ElectionState(4, voted_id=3), Unattached, -1, ELECTION_MS + DRAWN_MS),
        (LED, Follower, 2, FETCH_MS),
        (ElectionState(4, leader_id=1), Resigned, 1, ELECTION_MS + DRAWN_MS),
        (ElectionState(2, leader_id=2), Unattached, -1, ELECTION_MS + DRAWN_MS),
    ],
)
def test_a_voter_begins_with_what_its_disk_says(
    election: ElectionState, role: type, leader_id: int, deadline_ms: float
) -> None:
    quorum = node(election)
    assert isinstance(quorum.role, role)
    assert (quorum.leader_id, quorum.role.deadline_ms) == (leader_id, deadline_ms)
    assert quorum.epoch == max(election.epoch, 3), "the log knows of later epochs than an older quorum-state"
    assert not quorum.is_leader


def test_a_removed_former_leader_becomes_an_observer() -> None:
    for history in (in_the_log(VOTERS[1:]), in_the_log([Voter(1, DISK[9]), *VOTERS[1:]])):
        quorum = node(ElectionState(4, leader_id=1), history)
        assert isinstance(quorum.role, Unattached)
        assert (quorum.leader_id, quorum.role.deadline_ms) == (-1, NEVER)
        assert isinstance(sent(quorum)[0].request, Fetch)


# Before an election.


def test_a_voter_without_a_leader_asks_before_it_stands() -> None:
    quorum = node()
    assert sent(quorum) == [], "it waits to be found first"
    quorum.step(Tick(), ELECTION_MS + DRAWN_MS - 1)
    assert isinstance(quorum.role, Unattached)
    quorum, asked, now_ms = prospective()
    assert now_ms == ELECTION_MS + DRAWN_MS
    assert isinstance(quorum.role, Prospective)
    end = OffsetAndEpoch(20, 3)
    assert asked == [
        Send(each, Vote(4, ReplicaKey(1, DISK[1]), end, True, ReplicaKey(each, DISK[each]))) for each in (2, 3)
    ]
    assert quorum.role.deadline_ms == now_ms + ELECTION_MS + DRAWN_MS
    assert quorum.epoch == 4, "and disturbs nobody with a new epoch"
    quorum.step(Tick(), now_ms + 1)
    assert sent(quorum) == [], "each is asked once"


def test_a_follower_whose_leader_is_silent_asks_too() -> None:
    quorum = node(LED)
    sent(quorum)
    quorum.step(Tick(), FETCH_MS - 1)
    assert isinstance(quorum.role, Follower)
    quorum.step(Tick(), FETCH_MS)
    assert isinstance(quorum.role, Prospective)
    assert quorum.leader_id == 2
    assert {each.node_id for each in sent(quorum)} == {2, 3}


def test_a_silent_voter_is_asked_again_after_its_backoff() -> None:
    quorum, asked, now_ms = prospective()
    quorum.step(Unanswered(2, asked[0].request), now_ms)
    assert sent(quorum) == []
    assert quorum.deadline_ms == now_ms + DEFAULT_TIMING.retry_backoff_ms
    quorum.step(Tick(), quorum.deadline_ms)
    assert [each.node_id for each in sent(quorum)] == [2]


def test_a_question_without_a_majority_ends_at_its_deadline() -> None:
    quorum, _, _ = prospective()
    quorum.step(Tick(), quorum.deadline_ms - 1)
    assert isinstance(quorum.role, Prospective)
    now_ms = quorum.deadline_ms
    quorum.step(Tick(), now_ms)
    assert isinstance(quorum.role, Unattached)
    assert quorum.role.deadline_ms == now_ms + ELECTION_MS + DRAWN_MS


def test_two_refusals_of_three_end_the_question_at_once() -> None:
    quorum, asked, now_ms = prospective()
    grant(quorum, asked[0], now_ms, granted=False)
    assert isinstance(quorum.role, Prospective)
    grant(quorum, asked[1], now_ms, granted=False)
    assert isinstance(quorum.role, Unattached)
    assert quorum.role.deadline_ms == now_ms + ELECTION_MS + DRAWN_MS


def test_a_prospective_follows_its_leader_again_when_other_voters_still_hear_it() -> None:
    quorum = node(LED)
    sent(quorum)
    quorum.step(Tick(), FETCH_MS)
    for send in sent(quorum):
        grant(quorum, send, FETCH_MS, granted=False)
    assert isinstance(quorum.role, Follower)
    assert (quorum.leader_id, quorum.role.deadline_ms) == (2, FETCH_MS + ELECTION_MS + DRAWN_MS)


def test_two_voters_that_lose_their_leader_together_and_refuse_each_other_soon_try_again() -> None:
    quorum = node(LED)
    sent(quorum)
    quorum.step(Tick(), FETCH_MS)
    asked = {each.node_id: each for each in sent(quorum)}
    grant(quorum, asked[3], FETCH_MS)
    assert isinstance(quorum.role, Candidate)
    asked = {each.node_id: each for each in sent(quorum, FETCH_MS)}
    grant(quorum, asked[3], FETCH_MS, granted=False)
    assert quorum.role.votes.is_lost, "the leader that is silent will not vote"
    assert quorum.role.deadline_ms == FETCH_MS + FIRST_BACKOFF_MS // 2
    quorum.step(Tick(), quorum.role.deadline_ms)
    assert isinstance(quorum.role, Prospective)
    assert quorum.role.votes.gone == {2}


def test_a_leader_that_answers_after_all_counts_as_a_voter_again() -> None:
    quorum = node(LED)
    sent(quorum)
    quorum.step(Tick(), FETCH_MS)
    asked = {each.node_id: each for each in sent(quorum)}
    grant(quorum, asked[3], FETCH_MS)
    asked = {each.node_id: each for each in sent(quorum, FETCH_MS)}
    grant(quorum, asked[2], FETCH_MS)
    assert isinstance(quorum.role, Leader)
    assert set(quorum.role.granted) == {1, 2}


def test_a_voter_whose_process_is_gone_makes_the_question_end_sooner_and_be_asked_again_soon() -> None:
    quorum, asked, now_ms = prospective()
    quorum.step(Unanswered(2, asked[0].request, is_gone=True), now_ms)
    assert isinstance(quorum.role, Prospective)
    grant(quorum, asked[1], now_ms, granted=False)
    assert isinstance(quorum.role, Unattached)
    assert quorum.role.deadline_ms == now_ms + 50, "the middle of the first backoff"


def test_a_voter_that_was_gone_and_answers_is_back() -> None:
    quorum, asked, now_ms = prospective()
    quorum.step(Unanswered(2, asked[0].request, is_gone=True), now_ms)
    assert isinstance(quorum.role, Prospective)
    role = quorum.role
    now_ms = quorum.deadline_ms
    quorum.step(Tick(), now_ms)
    (again,) = sent(quorum)
    grant(quorum, again, now_ms, granted=False)
    assert role.votes.gone == set()
    assert quorum.role is role


def test_an_answer_that_came_late_counts_for_nothing() -> None:
    quorum, asked, now_ms = candidate()
    late = quorum.role
    quorum.step(Tick(), quorum.deadline_ms)
    assert quorum.role is not late
    assert isinstance(quorum.role, Prospective)
    grant(quorum, asked[0], now_ms)
    assert isinstance(quorum.role, Prospective)
    assert quorum.role.votes.granted == [1]


# The election.


def test_a_candidate_votes_for_itself_on_disk_first_and_begins_its_time_then() -> None:
    quorum, asked, now_ms = prospective()
    grant(quorum, asked[0], now_ms)
    role = quorum.role
    assert isinstance(role, Candidate)
    assert role.election == ElectionState(5, -1, 1, DISK[1])
    assert quorum.deadline_ms == NEVER, "no time runs while the disk is slow"
    quorum.step(Tick(), now_ms + 10 * ELECTION_MS)
    assert quorum.role is role
    assert role.granted == []
    ready = quorum.ready()
    assert ready is not None
    assert ready.election == role.election
    assert not ready.outgoing
    assert quorum.ready() is None
    quorum.step(ElectionPersisted(role.election), now_ms + 10 * ELECTION_MS)
    assert role.granted == [1]
    assert role.deadline_ms == now_ms + 11 * ELECTION_MS + DRAWN_MS
    asked = sent(quorum)
    assert [each.request for each in asked] == [
        Vote(5, ReplicaKey(1, DISK[1]), OffsetAndEpoch(20, 3), False, ReplicaKey(each, DISK[each])) for each in (2, 3)
    ]


def candidate_again(follower: Quorum) -> tuple[Quorum, list[Send], float]:
    """The follower stands, since it does not hear its leader."""
    sent(follower)
    now_ms = follower.deadline_ms
    follower.step(Tick(), now_ms)
    grant(follower, sent(follower)[0], now_ms)
    return follower, sent(follower, now_ms), now_ms


def test_a_lost_election_is_followed_by_a_random_wait_that_grows() -> None:
    quorum, asked, now_ms = candidate()
    waits = []
    for _ in range(6):
        role = quorum.role
        assert isinstance(role, Candidate)
        grant(quorum, asked[0], now_ms, granted=False)
        assert not role.is_lost
        grant(quorum, asked[1], now_ms, granted=False)
        assert role.is_lost
        waits.append(role.deadline_ms - now_ms)
        quorum.step(Tick(), role.deadline_ms - 1)
        assert quorum.role is role
        now_ms = role.deadline_ms
        quorum.step(Tick(), now_ms)
        assert isinstance(quorum.role, Prospective)
        grant(quorum, sent(quorum)[0], now_ms)
        asked = sent(quorum, now_ms)
    assert waits == [50, 100, 200, 400, 500, 500]
    quorum.step(Asked("b", BeginQuorumEpoch(quorum.epoch, 2, ReplicaKey(1, DISK[1]))), now_ms)
    assert isinstance(quorum.role, Follower)
    quorum, asked, now_ms = candidate_again(quorum)
    for send in asked:
        grant(quorum, send, now_ms, granted=False)
    assert quorum.deadline_ms - now_ms == 50, "the wait is short again behind a leader"


def test_a_candidate_without_answers_asks_again_at_its_deadline() -> None:
    quorum, _, now_ms = candidate()
    assert quorum.deadline_ms == now_ms + ELECTION_MS + DRAWN_MS
    epoch = quorum.epoch
    quorum.step(Tick(), quorum.deadline_ms)
    assert isinstance(quorum.role, Prospective)
    assert quorum.epoch == epoch


def test_an_answer_of_a_newer_epoch_ends_a_candidacy() -> None:
    quorum, asked, now_ms = candidate()
    role = quorum.role
    assert isinstance(role, Candidate)
    deadline_ms = role.deadline_ms
    grant(quorum, asked[0], now_ms, granted=False, epoch=9)
    assert isinstance(quorum.role, Unattached)
    assert (quorum.epoch, quorum.leader_id, quorum.role.deadline_ms) == (9, -1, deadline_ms)


# The leader.


def test_a_leader_announces_itself_until_a_voter_fetches() -> None:
    quorum, notified, now_ms = leader()
    assert isinstance(quorum.role, Leader)
    assert notified == [Send(each, BeginQuorumEpoch(5, 1, ReplicaKey(each, DISK[each]))) for each in (2, 3)]
    for send in notified:
        quorum.step(Answered(send.node_id, send.request, EpochResponse(Known(5, 1))), now_ms)
    assert quorum.deadline_ms == now_ms + FETCH_MS / 2
    quorum.step(Asked("f", Fetch(5, ReplicaKey(3, DISK[3]), 20, 3, -1, 500)), now_ms + 10)
    quorum.step(Tick(), now_ms + FETCH_MS / 2 - 1)
    assert sent(quorum) == []
    quorum.step(Tick(), now_ms + FETCH_MS / 2)
    assert [each.node_id for each in sent(quorum)] == [2]
    quorum.step(Tick(), now_ms + FETCH_MS / 2 + 10)
    assert [each.node_id for each in sent(quorum)] == [3]


def test_a_leader_that_no_majority_follows_resigns_after_one_and_a_half_fetch_timeouts() -> None:
    quorum, _, now_ms = leader()
    quorum.step(Asked("f", Fetch(5, ReplicaKey(2, DISK[2]), 20, 3, -1)), now_ms + 100)
    due_ms = now_ms + 100 + 1.5 * FETCH_MS
    quorum.step(Tick(), due_ms - 1)
    assert quorum.is_leader
    sent(quorum)
    quorum.step(Tick(), due_ms)
    assert isinstance(quorum.role, Resigned)
    assert quorum.role.deadline_ms == due_ms + ELECTION_MS + DRAWN_MS
    candidates = (ReplicaKey(2, DISK[2]), ReplicaKey(3, DISK[3]))
    assert sent(quorum) == [Send(each, EndQuorumEpoch(5, 1, candidates)) for each in (2, 3)], "the best first"


def test_fetches_of_snapshots_keep_a_leader_from_resigning() -> None:
    quorum, _, now_ms = leader()
    request = FetchSnapshot(5, ReplicaKey(2, DISK[2]), SNAPSHOT, 0, 100)
    for _ in range(3):
        now_ms += FETCH_MS
        quorum.step(Asked("s", request), now_ms)
    assert quorum.is_leader
    quorum.step(Tick(), now_ms + 1.5 * FETCH_MS)
    assert not quorum.is_leader


def test_a_resigned_leader_waits_and_stands_only_in_a_later_epoch() -> None:
    quorum = node(ElectionState(4, leader_id=1))
    quorum.step(Tick(), ELECTION_MS + DRAWN_MS - 1)
    assert isinstance(quorum.role, Resigned)
    quorum.step(Tick(), ELECTION_MS + DRAWN_MS)
    assert isinstance(quorum.role, Unattached)
    assert (quorum.epoch, quorum.role.deadline_ms) == (5, ELECTION_MS + DRAWN_MS)
    sent(quorum)
    quorum.step(Tick(), ELECTION_MS + DRAWN_MS)
    assert isinstance(quorum.role, Prospective), "it has waited, and asks at once"


def test_a_removed_leader_leads_until_that_is_committed_and_then_observes() -> None:
    quorum, _, now_ms = leader()
    quorum.step(LogSynced(21), now_ms)
    quorum.step(Asked("f", Fetch(5, ReplicaKey(2, DISK[2]), 21, 5, -1)), now_ms)
    quorum.history.add_voters(21, voter_set(VOTERS[1:]))
    quorum.step(Tick(), now_ms)
    assert quorum.is_leader
    quorum.log.append(batch(21, epoch=5))
    for number in (2, 3):
        quorum.step(Asked("f", Fetch(5, ReplicaKey(number, DISK[number]), 22, 5, -1)), now_ms)
    quorum.step(LogSynced(22), now_ms)
    assert isinstance(quorum.role, Unattached)
    assert (quorum.leader_id, quorum.role.deadline_ms) == (-1, NEVER)
    notified = [each for each in sent(quorum) if isinstance(each.request, EndQuorumEpoch)]
    assert [each.node_id for each in notified] == [2, 3]


def test_a_voter_knows_when_its_leader_answered_last_until_it_follows_another() -> None:
    quorum = node(LED)
    (fetch, *_) = [each for each in sent(quorum) if isinstance(each.request, Fetch)]
    assert quorum.heard_leader is None
    quorum.step(Answered(2, fetch.request, FetchResponse(Known(4, 2), 20)), 30)
    assert quorum.heard_leader == HeardLeader(2, 30)
    quorum.step(Tick(), 30 + FETCH_MS)
    asked = {each.node_id: each for each in sent(quorum, 30 + FETCH_MS) if isinstance(each.request, Vote)}
    grant(quorum, asked[3], 31 + FETCH_MS)
    assert quorum.heard_leader == HeardLeader(2, 30), "the answer of another is none of its own"
    asked = {each.node_id: each for each in sent(quorum, 31 + FETCH_MS)}
    grant(quorum, asked[2], 32 + FETCH_MS, granted=False)
    assert quorum.heard_leader == HeardLeader(2, 32 + FETCH_MS)
    quorum.step(Asked("new", BeginQuorumEpoch(6, 3, ReplicaKey(1, DISK[1]))), 40 + FETCH_MS)
    assert quorum.heard_leader is None
