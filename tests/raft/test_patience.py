"""The patience of a node with others that fail, that are too many, and with its own writes that failed."""

from kpybroker.machines.raft import leading
from kpybroker.machines.raft.conversations import MOST_BACKOFF_MS, QUICK_RETRIES
from kpybroker.machines.raft.events import Answered, ElectionPersisted, Send, Tick, Unanswered
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import Fetch, FetchResponse, Known, ReplicaKey, Request
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import ElectionState, Follower, Leader
from kpybroker.machines.raft.timing import longest_fetch_wait_ms
from kpybroker.machines.raft.voters import Voter, VoterHistory, voter_set
from kpystorage.leader_epochs import LeaderEpochs

VOTERS = [Voter(1), Voter(2), Voter(3)]


def request_of(quorum: Quorum) -> Request:
    ready = quorum.ready()
    assert ready is not None
    (outgoing,) = ready.outgoing
    assert isinstance(outgoing, Send)
    return outgoing.request


def test_backoff_grows_with_failures_until_an_answer() -> None:
    log = LogView(1, LeaderEpochs([(1, 0)]), synced_offset=1)
    quorum = Quorum(Voter(4), VoterHistory(VOTERS), ElectionState(1, leader_id=2), log)
    quorum.start(0)
    now_ms, waits_ms = 0.0, []
    for _ in range(12):
        quorum.step(Unanswered(2, request_of(quorum)), now_ms)
        assert isinstance(quorum.role, Follower)
        quorum.role.deadline_ms = now_ms + 10_000
        waits_ms.append(quorum.deadline_ms - now_ms)
        now_ms = quorum.deadline_ms
        quorum.step(Tick(), now_ms)
    first_ms = quorum.timing.retry_backoff_ms
    assert waits_ms[:QUICK_RETRIES] == [first_ms] * QUICK_RETRIES
    assert waits_ms[QUICK_RETRIES : QUICK_RETRIES + 3] == [first_ms * 2, first_ms * 4, first_ms * 8]
    assert waits_ms[-1] == MOST_BACKOFF_MS
    quorum.step(Answered(2, request_of(quorum), FetchResponse(Known(1, 2))), now_ms)
    quorum.step(Unanswered(2, request_of(quorum)), now_ms)
    assert quorum.deadline_ms == now_ms + first_ms


def test_no_number_of_others_keeps_a_voter_from_counting() -> None:
    voters = voter_set([Voter(node_id, bytes([node_id]) * 16) for node_id in (1, 2, 3)])
    leader = Leader(ElectionState(1, leader_id=1), 0, [1])
    for number in range(leading.MOST_REPLICAS + 5):
        stranger = ReplicaKey(2 + number % 7, number.to_bytes(16, "big"))
        leading.note_fetch(leader, voters, Fetch(1, stranger, 1, 1, -1), 2, number, 0)
    for voter in (voters[2], voters[3]):
        replica = ReplicaKey(voter.id, voter.directory_id)
        leading.note_life(leader, voters, replica, 2_000)
        leading.note_fetch(leader, voters, Fetch(1, replica, 2, 1, -1), 2, 2_000, 0)
        assert leading.progress_of(leader, voter).end_offset == 2
    assert len(leader.replicas) == leading.MOST_REPLICAS
    leader.synced_offset = 2
    assert leading.committed(leader, 1, voters) == 2


def test_appended_records_that_were_never_written_are_dropped() -> None:
    log = LogView(0, LeaderEpochs(), synced_offset=0)
    quorum = Quorum(VOTERS[0], VoterHistory(VOTERS[:1]), ElectionState(), log)
    quorum.start(0)
    while not quorum.is_leader:
        ready = quorum.ready()
        assert ready is not None
        assert ready.election is not None
        quorum.step(ElectionPersisted(ready.election), 0)
    quorum.ready()
    written = quorum.next_offset
    quorum.append([b"a", b"b"], 0)
    quorum.resign()
    assert quorum.next_offset == quorum.log.end.offset == written
    ready = quorum.ready()
    assert ready is None or not ready.batches


def test_a_node_that_is_not_the_leader_cannot_resign() -> None:
    log = LogView(1, LeaderEpochs([(1, 0)]), synced_offset=1)
    quorum = Quorum(VOTERS[0], VoterHistory(VOTERS), ElectionState(1, leader_id=2), log)
    quorum.start(0)
    quorum.resign()
    assert isinstance(quorum.role, Follower)


def test_a_fetch_waits_as_long_as_kafkas_where_that_is_half_of_the_patience_at_most() -> None:
    assert longest_fetch_wait_ms(2_000, 2_000) == 500
    assert longest_fetch_wait_ms(600, 2_000) == 300
    assert longest_fetch_wait_ms(2_000, 500) == 250
    assert longest_fetch_wait_ms(0, 0) == 1, "a leader without news is not asked all the time"
