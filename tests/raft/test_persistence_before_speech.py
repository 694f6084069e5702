"""One node of three, step by step: nothing leaves before what it promises is on disk, and only that counts."""

import pytest

from kpybroker.machines.raft.events import (
    Answer,
    Answered,
    Asked,
    ElectionPersisted,
    LogSynced,
    Ready,
    Send,
    Tick,
    Unanswered,
)
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import (
    EndQuorumEpoch,
    EpochResponse,
    Fetch,
    FetchResponse,
    Known,
    OffsetAndEpoch,
    ReplicaKey,
    UpdateVoter,
    Vote,
    VoteResponse,
    VoterResponse,
)
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import Candidate, ElectionState, Follower, Leader, Prospective
from kpybroker.machines.raft.voters import Voter, VoterHistory
from kpystorage.leader_epochs import LeaderEpochs
from kpywire import error_codes

VOTERS = [Voter(1), Voter(2), Voter(3)]
EVERYTHING = OffsetAndEpoch(1000, 1)
NEW = ElectionState()


def node(next_offset: int = 0, epoch: int = -1, election: ElectionState = NEW) -> Quorum:
    """Node 1 of three, started."""
    epochs = LeaderEpochs([(epoch, 0)] if epoch >= 0 else [])
    log = LogView(next_offset, epochs, synced_offset=next_offset)
    quorum = Quorum(VOTERS[0], VoterHistory(VOTERS), election, log)
    quorum.start(0)
    return quorum


def next_ready(quorum: Quorum) -> Ready:
    ready = quorum.ready()
    assert ready is not None
    return ready


def requests(ready: Ready) -> list[Send]:
    return [outgoing for outgoing in ready.outgoing if isinstance(outgoing, Send)]


def elect(quorum: Quorum) -> float:
    """Let the node ask, stand and win with the vote of node 2; the time then."""
    now_ms = quorum.deadline_ms
    quorum.step(Tick(), now_ms)
    asked = requests(next_ready(quorum))
    assert isinstance(quorum.role, Prospective)
    assert [send.node_id for send in asked] == [2, 3]
    quorum.step(Answered(2, asked[0].request, VoteResponse(Known(quorum.epoch), True)), now_ms)
    assert isinstance(quorum.role, Candidate)
    ready = next_ready(quorum)
    assert ready.election is not None
    assert not ready.outgoing, "its own vote is not on disk yet"
    quorum.step(ElectionPersisted(ready.election), now_ms)
    asked = requests(next_ready(quorum))
    quorum.step(Answered(2, asked[0].request, VoteResponse(Known(quorum.epoch), True)), now_ms)
    assert isinstance(quorum.role, Leader)
    ready = next_ready(quorum)
    assert ready.election is not None
    quorum.step(ElectionPersisted(ready.election), now_ms)
    return now_ms


def acknowledge(quorum: Quorum, offset: int, epoch: int, now_ms: float) -> None:
    """Node 2 fetches from ``offset``, so it has all below."""
    fetch = Fetch(quorum.epoch, ReplicaKey(2), offset, epoch, -1)
    quorum.step(Asked(offset, fetch), now_ms)


def test_a_vote_leaves_when_it_is_on_disk() -> None:
    quorum = node()
    quorum.step(Asked("vote", Vote(4, ReplicaKey(2), EVERYTHING, False, ReplicaKey(1))), 0)
    ready = next_ready(quorum)
    assert ready.election == ElectionState(4, voted_id=2)
    assert not ready.outgoing
    assert quorum.ready() is None
    quorum.step(ElectionPersisted(ready.election), 0)
    assert next_ready(quorum).outgoing == [Answer("vote", VoteResponse(Known(4), True))]


def test_another_candidate_of_the_same_epoch_gets_no_vote_even_after_a_restart() -> None:
    quorum = node(election=ElectionState(4, voted_id=2))
    quorum.step(Asked("vote", Vote(4, ReplicaKey(3), EVERYTHING, False, ReplicaKey(1))), 0)
    assert next_ready(quorum).outgoing == [Answer("vote", VoteResponse(Known(4), False))]


def test_a_candidate_whose_log_lacks_something_gets_no_vote() -> None:
    quorum = node(next_offset=10, epoch=3, election=ElectionState(3))
    quorum.step(Asked("vote", Vote(4, ReplicaKey(2), OffsetAndEpoch(9, 3), False, ReplicaKey(1))), 0)
    ready = next_ready(quorum)
    assert ready.election == ElectionState(4), "the epoch counts all the same"
    quorum.step(ElectionPersisted(ready.election), 0)
    assert next_ready(quorum).outgoing == [Answer("vote", VoteResponse(Known(4), False))]


@pytest.mark.parametrize(
    ("vote", "error_code"),
    [
        (Vote(2, ReplicaKey(2), OffsetAndEpoch(0, 0), False, ReplicaKey(1)), error_codes.FENCED_LEADER_EPOCH),
        (Vote(4, ReplicaKey(2), OffsetAndEpoch(0, 4), False, ReplicaKey(1)), error_codes.INVALID_REQUEST),
        (Vote(4, ReplicaKey(2), OffsetAndEpoch(0, 0), False, ReplicaKey(2)), error_codes.INVALID_VOTER_KEY),
    ],
    ids=["an old epoch", "a log of the epoch that is only asked for", "meant for another node"],
)
def test_a_vote_that_makes_no_sense_is_refused_with_the_error_of_kafka(vote: Vote, error_code: int) -> None:
    quorum = node(election=ElectionState(3))
    quorum.step(Asked("vote", vote), 0)
    ready = next_ready(quorum)
    if ready.election is not None:  # the newer epoch counts, no matter who was meant
        assert ready.election == ElectionState(4)
        quorum.step(ElectionPersisted(ready.election), 0)
        ready = next_ready(quorum)
    (answer,) = ready.outgoing
    assert isinstance(answer, Answer)
    assert not answer.response.granted
    assert answer.response.known.error_code == error_code


def test_unsynced_records_of_the_leader_do_not_count() -> None:
    quorum = node()
    now_ms = elect(quorum)
    acknowledge(quorum, 1, 1, now_ms)
    quorum.step(LogSynced(1), now_ms)
    assert quorum.high_watermark == 1
    quorum.append([b"a"], int(now_ms))
    next_ready(quorum)
    acknowledge(quorum, 2, 1, now_ms)
    assert quorum.high_watermark == 1, "one disk of three is no majority"
    quorum.step(LogSynced(2), now_ms)
    assert quorum.high_watermark == 2


def test_records_of_earlier_epochs_are_committed_by_one_of_this_epoch() -> None:
    quorum = node(next_offset=10, epoch=3, election=ElectionState(3))
    now_ms = elect(quorum)
    quorum.step(LogSynced(11), now_ms)
    acknowledge(quorum, 10, 3, now_ms)
    assert quorum.high_watermark is None, "a majority has them, and yet they may be cut (Raft, section 5.4.2)"
    acknowledge(quorum, 11, 4, now_ms)
    assert quorum.high_watermark == 11


def test_a_follower_acknowledges_what_it_has_synced() -> None:
    leading = node()
    now_ms = elect(leading)
    batch = leading.append([b"a"], int(now_ms)) and next_ready(leading).batches[0]
    assert batch
    quorum = node(next_offset=1, epoch=1, election=ElectionState(1, leader_id=2))
    (first,) = requests(next_ready(quorum))
    assert isinstance(first.request, Fetch)
    quorum.step(Answered(2, first.request, FetchResponse(Known(1, 2), 1, batches=[batch])), now_ms)
    ready = next_ready(quorum)
    assert ready.batches == [batch]
    (notified,) = requests(ready)
    assert isinstance(notified.request, UpdateVoter), "who was configured tells of itself, meanwhile"
    quorum.step(Answered(2, notified.request, VoterResponse(Known(1, 2))), now_ms)
    assert quorum.ready() is None, "the next fetch would acknowledge what may be lost"
    quorum.step(LogSynced(2), now_ms)
    (second,) = requests(next_ready(quorum))
    assert isinstance(second.request, Fetch)
    assert second.request.offset == 2


def test_a_damaged_batch_is_asked_for_again() -> None:
    leading = node()
    now_ms = elect(leading)
    leading.append([b"a"], int(now_ms))
    batch = bytearray(next_ready(leading).batches[0])
    batch[-1] ^= 1
    quorum = node(next_offset=1, epoch=1, election=ElectionState(1, leader_id=2))
    (first,) = requests(next_ready(quorum))
    quorum.step(Answered(2, first.request, FetchResponse(Known(1, 2), 1, batches=[bytes(batch)])), now_ms)
    assert quorum.ready() is None
    quorum.step(Tick(), now_ms + 1000)
    (notified,) = requests(next_ready(quorum))
    quorum.step(Answered(2, notified.request, VoterResponse(Known(1, 2))), now_ms + 1000)
    (second,) = requests(next_ready(quorum))
    assert second.request == first.request


def test_a_lost_connection_is_tried_again_after_a_while() -> None:
    quorum = node(election=ElectionState(1, leader_id=2))
    (first,) = requests(next_ready(quorum))
    quorum.step(Unanswered(2, first.request), 10)
    assert quorum.ready() is None
    assert quorum.deadline_ms == 10 + quorum.timing.retry_backoff_ms
    quorum.step(Tick(), quorum.deadline_ms)
    assert requests(next_ready(quorum)) == [first]
    assert isinstance(quorum.role, Follower)


def test_a_resigning_leader_names_the_best_candidate_first() -> None:
    quorum = node()
    now_ms = elect(quorum)
    next_ready(quorum)
    quorum.step(Asked("fetch", Fetch(1, ReplicaKey(3), 1, 1, -1)), now_ms)
    quorum.resign()
    notified = [outgoing for outgoing in next_ready(quorum).outgoing if isinstance(outgoing, Send)]
    best_first = (ReplicaKey(3), ReplicaKey(2))
    assert notified == [Send(each.id, EndQuorumEpoch(1, 1, best_first)) for each in best_first]


def test_a_leader_sends_begin_quorum_epoch_until_the_voters_follow() -> None:
    quorum = node()
    now_ms = elect(quorum)
    notified = requests(next_ready(quorum))
    assert [send.node_id for send in notified] == [2, 3]
    quorum.step(Answered(2, notified[0].request, EpochResponse(Known(1, 1))), now_ms)
    quorum.step(Tick(), now_ms + quorum.timing.fetch_timeout_ms / 2)
    assert [send.node_id for send in requests(next_ready(quorum))] == [2, 3]


def test_a_leader_whose_process_has_ended_is_not_waited_for() -> None:
    quorum = node(election=ElectionState(1, leader_id=2))
    (first,) = requests(next_ready(quorum))
    quorum.step(Unanswered(2, first.request, is_gone=True), 10)
    assert quorum.deadline_ms <= 10 + quorum.timing.gone_backoff_max_ms
    quorum.step(Tick(), 10 + quorum.timing.gone_backoff_max_ms)
    assert isinstance(quorum.role, Prospective)
    assert {send.node_id for send in requests(next_ready(quorum))} == {2, 3}, "it asks before it stands"


def test_a_leader_that_says_that_it_leads_no_more_is_not_waited_for() -> None:
    quorum = node(election=ElectionState(1, leader_id=2))
    (first,) = requests(next_ready(quorum))
    quorum.step(Answered(2, first.request, FetchResponse(Known(1, 2, error_codes.NOT_LEADER_OR_FOLLOWER))), 10)
    assert quorum.deadline_ms <= 10 + quorum.timing.gone_backoff_max_ms


def test_a_voter_that_lost_its_leader_grants_the_pre_vote() -> None:
    quorum = node(election=ElectionState(1, leader_id=2))
    (first,) = requests(next_ready(quorum))
    quorum.step(Answered(2, first.request, FetchResponse(Known(1, 2))), 0)
    ask = Vote(1, ReplicaKey(3), EVERYTHING, True, ReplicaKey(1))
    quorum.step(Asked("before", ask), 1)
    (second,) = requests(ready := next_ready(quorum))
    assert Answer("before", VoteResponse(Known(1, 2), False)) in ready.outgoing
    quorum.step(Unanswered(2, second.request, is_gone=True), 2)
    quorum.step(Asked("after", ask), 3)
    assert Answer("after", VoteResponse(Known(1, 2), True)) in next_ready(quorum).outgoing
