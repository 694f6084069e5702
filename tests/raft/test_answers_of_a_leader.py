"""A leader's answers to fetches and to changes of the voters: at once, later, or a refusal."""

import pytest
from one_of_three import DISK, FETCH_MS, LED, SNAPSHOT, VOTERS, answers, leader, node

from kpybroker.machines.raft.control_records import read_control_record
from kpybroker.machines.raft.errors import CannotUpgrade, NotLeader, RecordsTooLarge
from kpybroker.machines.raft.events import Answer, Asked, LogSynced, SnapshotWritten, Tick
from kpybroker.machines.raft.messages import (
    AddVoter,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Known,
    OffsetAndEpoch,
    RemoveVoter,
    ReplicaKey,
    Request,
    UpdateVoter,
    VoterResponse,
)
from kpybroker.machines.raft.quorum import MAX_BATCH_BYTES, Quorum
from kpybroker.machines.raft.roles import Leader
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory
from kpywire import error_codes
from kpywire.batch import parse_header
from kpywire.record import read_records


def fetch_of(number: int, offset: int, epoch: int, high_watermark: int = -1, wait_ms: int = 500) -> Fetch:
    return Fetch(5, ReplicaKey(number, DISK[number]), offset, epoch, high_watermark, wait_ms)


@pytest.mark.parametrize(
    ("epoch", "code"), [(4, error_codes.FENCED_LEADER_EPOCH), (6, error_codes.UNKNOWN_LEADER_EPOCH)]
)
def test_a_leader_answers_in_its_own_epoch_alone(epoch: int, code: int) -> None:
    quorum, _, now_ms = leader()
    snapshot = FetchSnapshot(epoch, ReplicaKey(2, DISK[2]), SNAPSHOT, 0, 100)
    quorum.step(Asked("fetch", fetch_of(2, 20, 3)._replace(epoch=epoch)), now_ms)
    quorum.step(Asked("snapshot", snapshot), now_ms)
    assert answers(quorum) == {
        "fetch": FetchResponse(Known(5, 1, code)),
        "snapshot": FetchSnapshotResponse(Known(5, 1, code), SNAPSHOT),
    }


def test_a_follower_answers_with_the_leader() -> None:
    quorum = node(LED)
    quorum.step(Asked("fetch", Fetch(4, ReplicaKey(3, DISK[3]), 20, 3, -1)), 0)
    known = Known(4, 2, error_codes.NOT_LEADER_OR_FOLLOWER)
    assert answers(quorum) == {"fetch": FetchResponse(known)}


def test_a_fetch_of_what_is_there_is_answered_at_once_and_one_at_the_end_waits() -> None:
    quorum, _, now_ms = leader()
    quorum.step(Asked("old", fetch_of(2, 20, 3)), now_ms)
    assert answers(quorum) == {"old": FetchResponse(Known(5, 1), -1)}
    quorum.step(Asked("end", fetch_of(2, 21, 5)), now_ms)
    assert answers(quorum) == {}
    quorum.append([b"r"], 0)
    assert answers(quorum) == {"end": FetchResponse(Known(5, 1), -1)}
    quorum.step(Asked("later", fetch_of(2, 22, 5)), now_ms)
    quorum.step(Tick(), now_ms + 499)
    assert answers(quorum) == {}
    quorum.step(Tick(), now_ms + 500)
    assert answers(quorum) == {"later": FetchResponse(Known(5, 1), -1)}


def test_a_new_high_watermark_is_news_to_those_that_do_not_know_it() -> None:
    quorum, _, now_ms = leader()
    quorum.step(Asked("knows", fetch_of(3, 21, 5, high_watermark=21)), now_ms)
    quorum.step(Asked("does not", fetch_of(2, 21, 5)), now_ms)
    quorum.step(LogSynced(21), now_ms)
    assert answers(quorum) == {"does not": FetchResponse(Known(5, 1), 21)}
    assert (quorum.high_watermark, quorum.leaders_high_watermark) == (21, 21)
    quorum.append([b"r"], 0)
    quorum.step(LogSynced(22), now_ms)
    quorum.step(Asked("more", fetch_of(2, 22, 5)), now_ms)
    assert (quorum.high_watermark, quorum.leaders_high_watermark) == (22, 21), "the latter is the first one"


def test_a_fetch_that_diverges_is_answered_with_the_place_and_acknowledges_nothing() -> None:
    quorum, _, now_ms = leader()
    quorum.step(LogSynced(21), now_ms)
    quorum.step(Asked("t", fetch_of(2, 25, 4)), now_ms)
    assert answers(quorum) == {"t": FetchResponse(Known(5, 1), -1, OffsetAndEpoch(20, 3))}
    assert quorum.high_watermark is None


def test_a_replica_that_lacks_what_is_no_longer_there_is_sent_to_the_snapshot() -> None:
    quorum, _, now_ms = leader()
    quorum.step(SnapshotWritten(OffsetAndEpoch(10, 3), 10), now_ms)
    quorum.step(Asked("t", fetch_of(2, 5, 3)), now_ms)
    assert answers(quorum) == {"t": FetchResponse(Known(5, 1), -1, snapshot=OffsetAndEpoch(10, 3))}
    request = FetchSnapshot(5, ReplicaKey(2, DISK[2]), OffsetAndEpoch(10, 3), 7, 100)
    quorum.step(Asked("s", request), now_ms)
    ready = quorum.ready()
    assert ready is not None
    assert ready.outgoing == [Answer("s", FetchSnapshotResponse(Known(5, 1), OffsetAndEpoch(10, 3), 7), request)]


def test_fetches_that_wait_are_refused_when_the_leader_resigns() -> None:
    quorum, _, now_ms = leader()
    quorum.step(Asked("t", fetch_of(2, 21, 5)), now_ms)
    quorum.resign()
    assert answers(quorum)["t"] == FetchResponse(Known(5, 1, error_codes.NOT_LEADER_OR_FOLLOWER))
    quorum.step(Tick(), now_ms + 500)
    assert "t" not in answers(quorum), "and once"


# Changes of the voters.


def established() -> tuple[Quorum, float]:
    """A leader that has committed its first record, at offset 20. Replica 5 follows it to the end."""
    quorum, _, now_ms = leader()
    quorum.step(LogSynced(21), now_ms)
    for number in (2, 5):
        quorum.step(Asked("f", fetch_of(number, 21, 5, high_watermark=21)), now_ms, 1_000)
    assert quorum.high_watermark == 21
    answers(quorum)
    return quorum, now_ms


def test_a_voter_is_added_and_answered_once_that_is_committed() -> None:
    quorum, now_ms = established()
    quorum.step(Asked("add", AddVoter(Voter(5, DISK[5]), 400, ack_when_committed=True)), now_ms)
    assert "add" not in answers(quorum)
    assert (list(quorum.history.voters), quorum.history.voters_offset) == ([1, 2, 3, 5], 21)
    assert quorum.next_offset == 22
    quorum.step(LogSynced(22), now_ms)
    for number in (2, 3):
        assert "add" not in answers(quorum)
        quorum.step(Asked("f", fetch_of(number, 22, 5, high_watermark=22)), now_ms)
    assert answers(quorum)["add"] == VoterResponse(Known(5, 1))
    quorum.step(Tick(), now_ms + 400)
    assert "add" not in answers(quorum)


def test_the_new_voters_record_is_in_the_log() -> None:
    quorum, now_ms = established()
    quorum.step(Asked("add", AddVoter(Voter(5, DISK[5]), 400, ack_when_committed=True)), now_ms, 7_000)
    ready = quorum.ready()
    assert ready is not None
    (written,) = ready.batches
    (record,) = read_records(written)
    assert (record.offset, record.timestamp) == (21, 7_000)
    control = read_control_record(record)
    assert control is not None
    assert [each.voter_id for each in control.message.voters] == [1, 2, 3, 5]
    assert parse_header(written).partition_leader_epoch == 5


def test_a_change_that_is_not_committed_in_time_is_answered_and_stays() -> None:
    quorum, now_ms = established()
    quorum.step(Asked("remove", RemoveVoter(ReplicaKey(3, DISK[3]), 400)), now_ms)
    assert list(quorum.history.voters) == [1, 2]
    assert quorum.deadline_ms == now_ms + 400
    quorum.step(Tick(), now_ms + 399)
    assert answers(quorum).get("remove") is None
    quorum.step(Asked("second", RemoveVoter(ReplicaKey(2, DISK[2]), 400)), now_ms + 399)
    assert answers(quorum)["second"].known.error_code == error_codes.REQUEST_TIMED_OUT, "one at a time"
    quorum.step(Tick(), now_ms + 400)
    assert answers(quorum)["remove"] == VoterResponse(Known(5, 1, error_codes.REQUEST_TIMED_OUT))
    assert list(quorum.history.voters) == [1, 2]
    quorum.step(Tick(), now_ms + 401)
    assert "remove" not in answers(quorum)


def test_a_change_is_refused_when_the_leader_resigns_meanwhile() -> None:
    quorum, now_ms = established()
    quorum.step(Asked("remove", RemoveVoter(ReplicaKey(3, DISK[3]), 400)), now_ms)
    quorum.resign()
    assert answers(quorum)["remove"] == VoterResponse(Known(5, 1, error_codes.NOT_LEADER_OR_FOLLOWER))


def test_a_change_that_does_not_wait_for_the_commit_is_answered_at_once() -> None:
    quorum, now_ms = established()
    quorum.step(Asked("add", AddVoter(Voter(5, DISK[5]), 400, ack_when_committed=False)), now_ms)
    assert answers(quorum)["add"] == VoterResponse(Known(5, 1))
    assert 5 in quorum.history.voters


def test_a_refused_change_leaves_the_voters_and_the_log_alone() -> None:
    quorum, now_ms = established()
    quorum.step(Asked("add", AddVoter(Voter(6, DISK[6]), 400, ack_when_committed=True)), now_ms)
    answer = answers(quorum)["add"]
    assert isinstance(answer, VoterResponse)
    assert answer.known == Known(5, 1, error_codes.REQUEST_TIMED_OUT)
    assert "lagging" in (answer.message or "")
    assert (quorum.next_offset, list(quorum.history.voters)) == (21, [1, 2, 3])


def test_a_new_voter_learns_the_leader_in_half_a_fetch_timeout_and_the_others_as_before() -> None:
    quorum, now_ms = established()
    assert isinstance(quorum.role, Leader)
    before = dict(quorum.role.announce_ms)
    quorum.step(Asked("add", AddVoter(Voter(5, DISK[5]), 400, ack_when_committed=True)), now_ms)
    assert quorum.role.announce_ms == {**before, 5: now_ms + FETCH_MS / 2}
    quorum, now_ms = established()
    quorum.step(Asked("remove", RemoveVoter(ReplicaKey(3, DISK[3]), 400)), now_ms)
    assert isinstance(quorum.role, Leader)
    assert set(quorum.role.announce_ms) == {2}


@pytest.mark.parametrize(
    "change",
    [AddVoter(Voter(5, DISK[5]), 400, ack_when_committed=True), RemoveVoter(ReplicaKey(3, DISK[3]), 400)],
)
def test_only_the_leader_changes_voters(change: Request) -> None:
    quorum = node(LED)
    quorum.step(Asked("t", change), 0)
    known = Known(4, 2, error_codes.NOT_LEADER_OR_FOLLOWER)
    assert answers(quorum) == {"t": VoterResponse(known)}


def test_a_voter_that_moved_is_written_and_answered_at_once() -> None:
    quorum, now_ms = established()
    moved = Voter(2, DISK[2], (VoterEndpoint("CONTROLLER", "there", 1),))
    quorum.step(Asked("old", UpdateVoter(4, moved)), now_ms)
    assert answers(quorum) == {"old": VoterResponse(Known(5, 1, error_codes.FENCED_LEADER_EPOCH))}
    quorum.step(Asked("same", UpdateVoter(5, VOTERS[1])), now_ms)
    assert answers(quorum) == {"same": VoterResponse(Known(5, 1))}
    assert quorum.next_offset == 21, "nothing new is not written"
    quorum.step(Asked("moved", UpdateVoter(5, moved)), now_ms)
    assert answers(quorum)["moved"] == VoterResponse(Known(5, 1))
    assert quorum.history.voters[2] == moved
    assert quorum.next_offset == 22


def test_updates_of_configured_voters_are_kept_in_memory_only() -> None:
    quorum, _, now_ms = leader(VoterHistory([Voter(1), Voter(2), Voter(3)]))
    quorum.step(LogSynced(21), now_ms)
    quorum.step(Asked("f", fetch_of(2, 21, 5)), now_ms)
    quorum.step(Asked("told", UpdateVoter(5, VOTERS[1])), now_ms)
    quorum.step(Asked("too new", UpdateVoter(5, Voter(3, DISK[3], (), (1, 1)))), now_ms)
    outgoing = answers(quorum)
    assert outgoing["told"] == VoterResponse(Known(5, 1))
    assert outgoing["too new"] == VoterResponse(Known(5, 1, error_codes.INVALID_REQUEST))
    assert isinstance(quorum.role, Leader)
    assert quorum.role.known_voters == {1: VOTERS[0], 2: VOTERS[1], 3: Voter(3, kraft_versions=(0, 0))}
    assert quorum.next_offset == 21
    with pytest.raises(CannotUpgrade):
        quorum.upgrade_kraft_version(1, 0, validate_only=False)
    quorum.step(Asked("told", UpdateVoter(5, VOTERS[2])), now_ms)
    quorum.upgrade_kraft_version(1, 0, validate_only=True)
    quorum.upgrade_kraft_version(0, 0, validate_only=False)
    assert (quorum.next_offset, quorum.history.kraft_version) == (21, 0)
    quorum.step(Asked("waits", fetch_of(3, 21, 5, high_watermark=21)), now_ms)
    quorum.upgrade_kraft_version(1, 8_000, validate_only=False)
    assert "waits" in answers(quorum), "those that wait for records get them"
    assert (quorum.next_offset, quorum.history.kraft_version, quorum.history.voters_offset) == (23, 1, 22)
    assert quorum.history.as_of(22).kraft_version == 1
    assert list(quorum.history.voters.values()) == VOTERS


def test_only_a_leader_raises_the_level() -> None:
    with pytest.raises(NotLeader):
        node(LED).upgrade_kraft_version(1, 0, validate_only=True)
    with pytest.raises(NotLeader):
        node(LED).append_section(b"", 0, 0)


def test_a_section_is_limited_as_records_are() -> None:
    quorum, _, _ = leader()
    with pytest.raises(RecordsTooLarge):
        quorum.append_section(bytes(MAX_BATCH_BYTES + 1), 1, 0)
    with pytest.raises(RecordsTooLarge):
        quorum.append([bytes(MAX_BATCH_BYTES - 23)], 0)
    assert quorum.next_offset == 21
    quorum.append([bytes(MAX_BATCH_BYTES - 24)], 0)
    assert quorum.next_offset == 22
