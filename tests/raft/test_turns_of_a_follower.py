"""A follower and an observer in time: fetches, cuts, snapshots, patience with the leader, and its own slow disk."""

from collections.abc import Sequence

import pytest
from one_of_three import (
    DISK,
    ELECTION_MS,
    FETCH_MS,
    LED,
    SNAPSHOT,
    VOTERS,
    batch,
    in_the_log,
    node,
    sent,
)

from kpybroker.machines.raft.control_records import control_batch, kraft_voters
from kpybroker.machines.raft.errors import QuorumBroken
from kpybroker.machines.raft.events import (
    Answered,
    Asked,
    ElectionPersisted,
    LogSynced,
    LogTruncated,
    Send,
    SnapshotBroken,
    SnapshotInstalled,
    SnapshotPart,
    Tick,
    Unanswered,
)
from kpybroker.machines.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Known,
    OffsetAndEpoch,
    ReplicaKey,
    UpdateVoter,
    VoterResponse,
)
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import NEVER, ElectionState, Follower, Unattached
from kpybroker.machines.raft.timing import DEFAULT_TIMING
from kpybroker.machines.raft.voters import VoterHistory, voter_set
from kpywire import error_codes

# The follower.


def follower() -> tuple[Quorum, Send]:
    quorum = node(LED)
    (send,) = sent(quorum)
    assert send.node_id == 2
    return quorum, send


def fetched(quorum: Quorum, send: Send, now_ms: float, response: FetchResponse | None = None) -> None:
    quorum.step(Answered(2, send.request, FetchResponse(Known(4, 2)) if response is None else response), now_ms)


def test_a_follower_fetches_from_its_end_and_each_answer_gives_it_patience() -> None:
    quorum, send = follower()
    timing = DEFAULT_TIMING
    assert send.request == Fetch(4, ReplicaKey(1, DISK[1]), 20, 3, -1, timing.fetch_max_wait_ms, timing.fetch_max_bytes)
    fetched(quorum, send, 1_500, FetchResponse(Known(4, 2), 12))
    assert quorum.deadline_ms == 1_500 + FETCH_MS
    assert isinstance(quorum.role, Follower)
    assert quorum.role.has_fetched
    assert (quorum.high_watermark, quorum.leaders_high_watermark) == (12, 12)
    (again,) = sent(quorum)
    assert again.request == send.request._replace(high_watermark=12)  # type: ignore[union-attr,call-arg]
    fetched(quorum, again, 1_600, FetchResponse(Known(4, 2), 99))
    assert quorum.high_watermark == 20, "what is not here is not known to be committed here"
    assert quorum.leaders_high_watermark == 12
    (again,) = sent(quorum)
    fetched(quorum, again, 1_700, FetchResponse(Known(4, 2), 5))
    assert quorum.high_watermark == 20, "it never goes back"


def test_a_high_watermark_of_0_is_one_and_minus_1_is_none() -> None:
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), -1))
    assert (quorum.high_watermark, quorum.leaders_high_watermark) == (None, None)
    (send,) = sent(quorum)
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 0))
    assert (quorum.high_watermark, quorum.leaders_high_watermark) == (0, 0)


def test_batches_are_appended_in_order_and_none_after_a_gap() -> None:
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 22, batches=[batch(20, 2), batch(22), batch(24)]))
    assert quorum.log.end == OffsetAndEpoch(23, 4)
    assert quorum.high_watermark is None, "an answer with a gap is not believed"
    ready = quorum.ready()
    assert ready is not None
    assert len(ready.batches) == 2
    quorum.step(LogSynced(23), 11)
    assert sent(quorum) == [], "the leader is in its backoff"
    quorum.step(Tick(), 10 + DEFAULT_TIMING.retry_backoff_ms)
    (again,) = sent(quorum)
    assert isinstance(again.request, Fetch)
    assert (again.request.offset, again.request.last_fetched_epoch) == (23, 4)


def test_a_log_that_diverges_is_cut_and_asked_for_again() -> None:
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 9, OffsetAndEpoch(15, 3)))
    assert quorum.next_offset == 15
    ready = quorum.ready()
    assert ready is not None
    assert ready.truncate_to == 15
    assert not ready.outgoing, "not before the files were cut"
    quorum.step(LogTruncated(), 20)
    assert quorum.deadline_ms == 10 + FETCH_MS
    (again,) = sent(quorum)
    assert isinstance(again.request, Fetch)
    assert again.request.offset == 15
    assert quorum.high_watermark is None


def test_committed_records_are_never_cut() -> None:
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 15))
    (send,) = sent(quorum)
    with pytest.raises(QuorumBroken, match="cuts the log at 14, but it is committed up to 15"):
        fetched(quorum, send, 10, FetchResponse(Known(4, 2), 15, OffsetAndEpoch(14, 3)))
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 15))
    (send,) = sent(quorum)
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 15, OffsetAndEpoch(15, 3)))
    assert quorum.next_offset == 15


def test_two_leaders_of_an_epoch_stop_the_node_and_an_older_one_is_ignored() -> None:
    quorum, send = follower()
    quorum.step(Answered(3, send.request, FetchResponse(Known(3, 3))), 10)
    assert (quorum.epoch, quorum.leader_id) == (4, 2)
    quorum.step(Answered(3, send.request, FetchResponse(Known(4, 2))), 10)
    quorum.step(Answered(3, send.request, FetchResponse(Known(4, -1))), 10)
    quorum.step(Answered(3, send.request, FetchResponse(Known(4, 1))), 10)
    assert (quorum.epoch, quorum.leader_id) == (4, 2)
    with pytest.raises(QuorumBroken, match="nodes 2 and 3 both lead epoch 4"):
        quorum.step(Answered(3, send.request, FetchResponse(Known(4, 3))), 10)


def test_a_newer_leader_is_followed_and_saved() -> None:
    quorum, send = follower()
    quorum.step(Answered(2, send.request, FetchResponse(Known(6, 3, error_codes.FENCED_LEADER_EPOCH))), 500)
    ready = quorum.ready()
    assert ready is not None
    assert ready.election == ElectionState(6, 3)
    assert isinstance(quorum.role, Follower)
    quorum.step(ElectionPersisted(ElectionState(6, 3)), 700)
    assert quorum.role.deadline_ms == 700 + FETCH_MS, "its patience begins when it can ask"
    (again,) = sent(quorum)
    assert again.node_id == 3


def test_a_leader_of_the_present_epoch_is_noted_beside_the_vote() -> None:
    quorum = node(ElectionState(4, voted_id=3, voted_directory_id=DISK[3]))
    quorum.step(Asked("b", BeginQuorumEpoch(4, 3, ReplicaKey(1, DISK[1]))), 100)
    ready = quorum.ready()
    assert ready is not None
    assert ready.election == ElectionState(4, 3, 3, DISK[3])
    quorum = node(LED)
    quorum.step(Asked("b", BeginQuorumEpoch(4, 2, ReplicaKey(1, DISK[1]))), 100)
    ready = quorum.ready()
    assert ready is not None
    assert ready.election is None, "nothing new"
    quorum.step(Answered(2, Fetch(1, ReplicaKey(1), 0, 0, -1), FetchResponse(Known(7, 1))), 100)
    assert (quorum.epoch, quorum.leader_id) == (7, -1), "what this node led on a lost disk"


def test_a_leader_that_is_gone_is_given_up_soon_but_nothing_is_given_up_later() -> None:
    quorum, send = follower()
    fetched(quorum, send, 100)
    (send,) = sent(quorum)
    quorum.step(Unanswered(3, send.request, is_gone=True), 200)
    assert isinstance(quorum.role, Follower)
    assert not quorum.role.is_abandoned, "another node's answer to what it was not asked"
    quorum.step(Unanswered(2, send.request, is_gone=True), 200)
    assert quorum.role.is_abandoned
    assert not quorum.role.has_fetched
    assert quorum.role.deadline_ms == 200 + DEFAULT_TIMING.gone_backoff_max_ms // 2
    quorum, send = follower()
    quorum.step(Unanswered(2, send.request, is_gone=True), FETCH_MS - 1)
    assert isinstance(quorum.role, Follower)
    assert quorum.role.deadline_ms == FETCH_MS


def test_a_slow_disk_is_nobodys_silence() -> None:
    quorum, send = follower()
    fetched(quorum, send, 100, FetchResponse(Known(4, 2), batches=[batch(20)]))
    quorum.ready()
    assert quorum.deadline_ms == 100 + FETCH_MS
    quorum.step(Tick(), 100 + FETCH_MS)
    assert isinstance(quorum.role, Follower)
    assert (quorum.deadline_ms, quorum.role.has_fetched) == (NEVER, False)
    quorum.step(LogSynced(21), 9_000)
    assert quorum.role.deadline_ms == 9_000 + FETCH_MS
    assert [each.node_id for each in sent(quorum)] == [2]


def test_a_slow_disk_does_not_bring_back_a_leader_that_is_gone() -> None:
    quorum, send = follower()
    fetched(quorum, send, 100, FetchResponse(Known(4, 2), batches=[batch(20)]))
    quorum.ready()
    quorum.step(Asked("e", EndQuorumEpoch(4, 2, ())), 200)
    role = quorum.role
    assert isinstance(role, Follower)
    due_ms = role.deadline_ms
    assert due_ms == 200 + ELECTION_MS
    quorum.step(LogSynced(21), 300)
    assert role.deadline_ms == due_ms
    quorum, send = follower()
    fetched(quorum, send, 100, FetchResponse(Known(4, 2), batches=[batch(20)]))
    quorum.ready()
    quorum.step(Asked("e", EndQuorumEpoch(4, 2, ())), 200)
    quorum.step(Tick(), 200 + ELECTION_MS)
    quorum.step(LogSynced(21), 5_000)
    assert isinstance(quorum.role, Follower)
    assert quorum.role.deadline_ms == 5_000 + DEFAULT_TIMING.gone_backoff_max_ms // 2


def test_a_follower_that_may_not_stand_looks_for_a_leader_as_an_observer_does() -> None:
    quorum = node(LED, in_the_log(VOTERS[1:]))
    (send,) = sent(quorum)
    quorum.step(Unanswered(2, send.request), FETCH_MS)
    assert isinstance(quorum.role, Unattached)
    assert (quorum.leader_id, quorum.role.deadline_ms) == (-1, NEVER)
    assert isinstance(sent(quorum)[0].request, Fetch)


def test_an_observer_asks_voters_and_bootstrap_servers_in_turn_until_one_names_the_leader() -> None:
    quorum = node(history=in_the_log(), may_vote=False)
    asked = []
    for _ in range(6):
        (send,) = sent(quorum)
        asked.append(send.node_id)
        assert sent(quorum) == []
        quorum.step(Answered(send.node_id, send.request, FetchResponse(Known(4, -1))), 10)
    assert set(asked) == {2, 3, -2}
    (send,) = sent(quorum)
    quorum.step(Answered(send.node_id, send.request, FetchResponse(Known(4, 3, 6))), 10)
    assert quorum.leader_id == 3


# Snapshots of the leader.


def fetching_a_snapshot() -> tuple[Quorum, Send]:
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 60, snapshot=SNAPSHOT))
    (send,) = sent(quorum)
    most_bytes = DEFAULT_TIMING.fetch_snapshot_max_bytes
    assert send == Send(2, FetchSnapshot(4, ReplicaKey(1, DISK[1]), SNAPSHOT, 0, most_bytes))
    return quorum, send


def part(
    quorum: Quorum, send: Send, position: int, data: bytes, now_ms: float = 100
) -> tuple[Sequence[SnapshotPart], list[Send]]:
    """A part of a snapshot of ten bytes arrives. Return the parts to write then, and the next requests."""
    response = FetchSnapshotResponse(Known(4, 2), SNAPSHOT, position, 10, data)
    quorum.step(Answered(2, send.request, response), now_ms)
    ready = quorum.ready()
    if ready is None:
        return [], []
    return ready.snapshot_parts, [each for each in ready.outgoing if isinstance(each, Send)]


def test_a_snapshot_comes_in_parts_and_gives_patience() -> None:
    quorum, send = fetching_a_snapshot()
    parts, (send,) = part(quorum, send, 0, b"123456", 1_000)
    assert parts == [SnapshotPart(SNAPSHOT, 0, b"123456", False)]
    assert quorum.deadline_ms == 1_000 + FETCH_MS
    assert isinstance(send.request, FetchSnapshot)
    assert send.request.position == 6
    last = [SnapshotPart(SNAPSHOT, 6, b"7890", True)]
    assert part(quorum, send, 6, b"7890", 1_100) == (last, []), "nothing is fetched before it is installed"
    history = in_the_log(VOTERS, offset=40)
    quorum.step(SnapshotInstalled(SNAPSHOT, history), 1_200)
    assert (quorum.log.end, quorum.high_watermark, quorum.history.voters_offset) == (SNAPSHOT, 50, 40)
    ready = quorum.ready()
    assert ready is not None
    assert ready.start_at == 50
    quorum.step(LogTruncated(), 1_300)
    assert quorum.deadline_ms == 1_200 + FETCH_MS
    (send,) = sent(quorum)
    assert isinstance(send.request, Fetch)
    assert (send.request.offset, send.request.last_fetched_epoch) == (50, 4)


@pytest.mark.parametrize(("position", "data"), [(1, b"12"), (0, b"")])
def test_a_part_that_was_not_asked_for_or_is_empty_ends_the_attempt(position: int, data: bytes) -> None:
    quorum, send = fetching_a_snapshot()
    assert part(quorum, send, position, data) == ([], [])
    quorum.step(Tick(), 100 + DEFAULT_TIMING.retry_backoff_ms)
    (send,) = sent(quorum)
    assert isinstance(send.request, Fetch), "it begins again with the log"


@pytest.mark.parametrize(
    ("code", "begins_again"),
    [
        (error_codes.SNAPSHOT_NOT_FOUND, True),
        (error_codes.POSITION_OUT_OF_RANGE, True),
        (error_codes.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_a_snapshot_that_the_leader_no_longer_has_is_forgotten(code: int, begins_again: bool) -> None:
    quorum, send = fetching_a_snapshot()
    quorum.step(Answered(2, send.request, FetchSnapshotResponse(Known(4, 2, code), SNAPSHOT)), 100)
    assert sent(quorum) == []
    quorum.step(Tick(), 100 + DEFAULT_TIMING.retry_backoff_ms)
    (send,) = sent(quorum)
    assert isinstance(send.request, Fetch if begins_again else FetchSnapshot)


def test_a_broken_snapshot_is_asked_for_again_after_a_while() -> None:
    quorum, send = fetching_a_snapshot()
    part(quorum, send, 0, b"1234567890")
    quorum.step(SnapshotBroken(SNAPSHOT), 200)
    assert quorum.log.end == OffsetAndEpoch(20, 3)
    assert sent(quorum) == []
    quorum.step(Tick(), 200 + DEFAULT_TIMING.retry_backoff_ms)
    (send,) = sent(quorum)
    assert isinstance(send.request, Fetch)


def test_a_snapshot_of_what_is_here_already_is_not_fetched() -> None:
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 15, snapshot=OffsetAndEpoch(20, 3)))
    assert sent(quorum) == []
    quorum.step(Tick(), 10 + DEFAULT_TIMING.retry_backoff_ms)
    (send,) = sent(quorum)
    assert isinstance(send.request, Fetch)


def test_a_snapshot_that_ends_before_what_is_committed_stops_the_node() -> None:
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 15))
    with pytest.raises(QuorumBroken, match="snapshot ends at 14, and more is committed"):
        quorum.step(SnapshotInstalled(OffsetAndEpoch(14, 6), in_the_log()), 20)
    quorum, send = follower()
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), 15))
    quorum.step(SnapshotInstalled(OffsetAndEpoch(15, 6), in_the_log()), 20)
    assert quorum.log.end == OffsetAndEpoch(15, 6)


def test_an_old_snapshot_changes_nothing() -> None:
    quorum, _ = follower()
    quorum.step(SnapshotInstalled(OffsetAndEpoch(20, 3), in_the_log(VOTERS[:2])), 20)
    assert len(quorum.history.voters) == 3
    assert quorum.high_watermark is None


def test_a_snapshot_part_that_was_not_requested_changes_no_timeout() -> None:
    quorum, send = follower()
    for message in (SnapshotInstalled(OffsetAndEpoch(20, 3), in_the_log()), SnapshotBroken(SNAPSHOT)):
        quorum.step(message, 500)
        assert quorum.deadline_ms == FETCH_MS
    fetched(quorum, send, 600)
    assert len(sent(quorum)) == 1, "the leader is in no backoff"


def test_another_snapshot_than_the_awaited_one_ends_nothing() -> None:
    quorum, send = fetching_a_snapshot()
    part(quorum, send, 0, b"1234567890")
    quorum.step(SnapshotBroken(OffsetAndEpoch(49, 4)), 200)
    assert sent(quorum) == [], "the disk is still awaited"
    quorum.step(SnapshotInstalled(SNAPSHOT, in_the_log()), 300)
    quorum.ready()
    quorum.step(LogTruncated(), 300)
    assert len(sent(quorum)) == 1


# The voters in the log.


def test_voters_come_with_the_log_and_go_with_it() -> None:
    quorum, send = follower()
    written = control_batch([kraft_voters(voter_set(VOTERS[:2]))], 20, 4, 0)
    fetched(quorum, send, 10, FetchResponse(Known(4, 2), batches=[written]))
    assert (list(quorum.history.voters), quorum.history.voters_offset) == ([1, 2], 20)
    quorum.ready()
    quorum.step(LogSynced(21), 11)
    (send,) = sent(quorum)
    fetched(quorum, send, 12, FetchResponse(Known(4, 2), diverging=OffsetAndEpoch(20, 3)))
    assert (list(quorum.history.voters), quorum.history.voters_offset) == ([1, 2, 3], 2)


# Voters that moved.


def moved_node(history: VoterHistory) -> Quorum:
    quorum = node(LED, history)
    (send,) = sent(quorum)
    fetched(quorum, send, 10)
    return quorum


def test_a_voter_that_moved_tells_the_leader_again_and_again_between_its_fetches() -> None:
    elsewhere = VOTERS[0]._replace(kraft_versions=(0, 0))
    quorum = moved_node(in_the_log([elsewhere, *VOTERS[1:]]))
    (send,) = sent(quorum)
    assert send == Send(2, UpdateVoter(4, VOTERS[0]))
    quorum.step(Unanswered(2, send.request), 20)
    quorum.step(Tick(), 40)
    (send,) = sent(quorum)
    assert isinstance(send.request, Fetch)
    fetched(quorum, send, 10 + FETCH_MS - 1)
    (send,) = sent(quorum)
    assert isinstance(send.request, Fetch)
    fetched(quorum, send, 10 + FETCH_MS)
    (send,) = sent(quorum)
    assert isinstance(send.request, UpdateVoter)


def test_a_voter_that_did_not_move_has_nothing_to_tell() -> None:
    for history in (in_the_log(), VoterHistory(VOTERS[1:])):
        (send,) = sent(moved_node(history))
        assert isinstance(send.request, Fetch)
    quorum = moved_node(VoterHistory(VOTERS))
    (send,) = sent(quorum)
    assert isinstance(send.request, UpdateVoter), "a configured voter tells of itself once"
    quorum.step(Answered(2, send.request, VoterResponse(Known(4, 2))), 20)
    for now_ms in (30, 30 + FETCH_MS - 5, 30 + 2 * FETCH_MS - 10):
        (send,) = sent(quorum)
        assert isinstance(send.request, Fetch)
        fetched(quorum, send, now_ms)
