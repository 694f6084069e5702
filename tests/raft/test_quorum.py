"""A quorum of one: elections, persistence before speech, appends and the high watermark, step by step."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.raft.control_records import ControlRecord, read_control_record
from kpybroker.machines.raft.errors import NotLeader, RecordsTooLarge
from kpybroker.machines.raft.events import ElectionPersisted, LogSynced, Ready
from kpybroker.machines.raft.log_view import log_view
from kpybroker.machines.raft.quorum import MAX_BATCH_BYTES, Quorum
from kpybroker.machines.raft.roles import Candidate, ElectionState, Leader, Unattached
from kpybroker.machines.raft.voters import BOOTSTRAP_OFFSET, Voter, VoterEndpoint, VoterHistory, voter_set
from kpywire.batch import check_crc, parse_header
from kpywire.record import read_records

ME = Voter(1, b"d" * 16, (VoterEndpoint("CONTROLLER", "localhost", 9093),))
NOW = 1_700_000_000_000
NEW = ElectionState()


def dynamic_history(voter: Voter = ME, offset: int = BOOTSTRAP_OFFSET) -> VoterHistory:
    history = VoterHistory()
    history.add_kraft_version(offset, 1)
    history.add_voters(offset, voter_set([voter]))
    return history


def new_quorum(
    history: VoterHistory | None = None,
    election: ElectionState = NEW,
    next_offset: int = 0,
    epoch: int = -1,
) -> Quorum:
    return Quorum(ME, dynamic_history() if history is None else history, election, log_view(next_offset, epoch))


def lead(quorum: Quorum) -> Ready:
    """Elect the quorum; what the leader wants on disk then."""
    quorum.start()
    vote = quorum.ready()
    assert vote is not None
    assert vote.election is not None
    quorum.step(ElectionPersisted(vote.election), NOW)
    ready = quorum.ready()
    assert ready is not None
    return ready


def control_records(batch: bytes) -> list[ControlRecord | None]:
    return [read_control_record(record) for record in read_records(batch)]


def sync_all(quorum: Quorum) -> None:
    quorum.step(LogSynced(quorum.next_offset), NOW)


def test_a_quorum_does_nothing_before_its_start() -> None:
    quorum = new_quorum()
    assert quorum.ready() is None
    assert not quorum.is_leader


def test_the_vote_is_on_disk_before_it_counts() -> None:
    quorum = new_quorum(election=ElectionState(epoch=4))
    quorum.start()
    assert isinstance(quorum.role, Candidate)
    ready = quorum.ready()
    assert ready == Ready(ElectionState(5, -1, 1, ME.directory_id), [])
    assert not quorum.is_leader
    assert quorum.ready() is None
    quorum.step(ElectionPersisted(ready.election), NOW)
    assert quorum.is_leader
    assert quorum.epoch == 5


def test_a_vote_of_another_epoch_does_not_count() -> None:
    quorum = new_quorum()
    quorum.start()
    quorum.ready()
    quorum.step(ElectionPersisted(ElectionState(7, -1, 1, ME.directory_id)), NOW)
    assert not quorum.is_leader


def test_the_epoch_is_above_all_that_log_and_vote_know() -> None:
    quorum = new_quorum(election=ElectionState(epoch=4), next_offset=10, epoch=9)
    lead(quorum)
    assert quorum.epoch == 10


def test_the_first_batch_of_the_first_epoch_names_leader_version_and_voters() -> None:
    ready = lead(new_quorum())
    assert ready.election == ElectionState(1, 1, 1, ME.directory_id)
    (batch,) = ready.batches
    header = parse_header(batch)
    assert header.is_control
    assert check_crc(batch, header)
    assert (header.base_offset, header.next_offset, header.partition_leader_epoch) == (0, 3, 1)
    leader, version, voters = control_records(batch)
    assert leader is not None
    assert version is not None
    assert voters is not None
    assert leader.message.leader_id == 1
    assert [voter.voter_id for voter in leader.message.voters] == [1]
    assert [voter.voter_id for voter in leader.message.granting_voters] == [1]
    assert version.message.kraft_version == 1
    assert voters.message.voters[0].voter_directory_id == ME.directory_id


def test_voters_that_stand_in_the_log_are_not_written_again() -> None:
    (batch,) = lead(new_quorum(dynamic_history(offset=2), next_offset=5)).batches
    assert len(control_records(batch)) == 1


def test_a_voter_that_moved_writes_where_it_is_now() -> None:
    moved = ME._replace(endpoints=(VoterEndpoint("CONTROLLER", "elsewhere", 1),))
    quorum = new_quorum(dynamic_history(moved, offset=2), next_offset=5)
    (batch,) = lead(quorum).batches
    assert len(control_records(batch)) == 3
    assert quorum.history.voters[1] == ME


def test_configured_voters_are_never_written() -> None:
    quorum = new_quorum(VoterHistory([Voter(1)]))
    (batch,) = lead(quorum).batches
    assert len(control_records(batch)) == 1


def test_the_high_watermark_waits_for_the_disk_and_for_this_epoch() -> None:
    quorum = new_quorum(dynamic_history(offset=2), next_offset=10, epoch=3)
    lead(quorum)
    assert quorum.high_watermark is None
    quorum.step(LogSynced(10), NOW)
    assert quorum.high_watermark is None, "what earlier epochs wrote is not committed by itself"
    quorum.step(LogSynced(11), NOW)
    assert quorum.high_watermark == 11


def test_appends_are_batches_with_offsets_and_the_epoch() -> None:
    quorum = new_quorum()
    lead(quorum)
    assert quorum.append([b"a", b"b"], NOW) == (3, 5)
    assert quorum.append([b"c"], NOW + 1) == (5, 6)
    ready = quorum.ready()
    assert ready is not None
    headers = [parse_header(batch) for batch in ready.batches]
    assert [(header.base_offset, header.next_offset) for header in headers] == [(3, 5), (5, 6)]
    assert {header.partition_leader_epoch for header in headers} == {1}
    assert [record.value for record in read_records(b"".join(ready.batches))] == [b"a", b"b", b"c"]
    assert quorum.high_watermark is None
    sync_all(quorum)
    assert quorum.high_watermark == 6


def test_only_a_leader_appends() -> None:
    quorum = new_quorum()
    with pytest.raises(NotLeader):
        quorum.append([b"a"], NOW)
    lead(quorum)
    quorum.append([b"a"], NOW)
    quorum.resign()
    with pytest.raises(NotLeader):
        quorum.append([b"b"], NOW)
    assert quorum.ready() is None


def test_a_batch_beyond_the_limit_is_refused_whole() -> None:
    quorum = new_quorum()
    lead(quorum)
    before = quorum.next_offset
    with pytest.raises(RecordsTooLarge):
        quorum.append([b"x" * (MAX_BATCH_BYTES // 2)] * 3, NOW)
    assert quorum.next_offset == before
    assert quorum.ready() is None


@pytest.mark.parametrize(
    "history",
    [
        VoterHistory([Voter(2)]),
        VoterHistory([Voter(1), Voter(2)]),
        dynamic_history(ME._replace(directory_id=b"o" * 16)),
        VoterHistory(),
    ],
    ids=["another voter", "two voters", "another disk", "no voters"],
)
def test_a_node_that_is_not_the_only_voter_does_not_stand(history: VoterHistory) -> None:
    quorum = new_quorum(history)
    quorum.start()
    assert not quorum.is_only_voter
    ready = quorum.ready()
    assert ready is None or (ready.election is None and not ready.batches), "it asks for the leader at most"
    assert isinstance(quorum.role, Unattached)


def test_voter_history_forgets_what_the_log_lost() -> None:
    history = dynamic_history()
    other = voter_set([Voter(2)])
    history.add_voters(7, other)
    assert (history.voters, history.voters_offset) == (other, 7)
    history.truncate_to(7)
    assert (list(history.voters), history.voters_offset, history.kraft_version) == ([1], BOOTSTRAP_OFFSET, 1)


@given(st.lists(st.one_of(st.integers(1, 4), st.just("ready"), st.just("sync")), max_size=30))
def test_offsets_rise_without_gaps_and_the_high_watermark_never_falls(steps: Sequence[int | str]) -> None:
    quorum = new_quorum()
    written = list(lead(quorum).batches)
    high_watermark = -1
    for step in steps:
        if step == "ready":
            written += (quorum.ready() or Ready(None, [])).batches
        elif step == "sync":
            quorum.step(LogSynced(parse_header(written[-1]).next_offset), NOW)
        else:
            quorum.append([b"r"] * int(step), NOW)
        now = quorum.high_watermark
        assert now is None or now >= high_watermark
        high_watermark = high_watermark if now is None else now
    written += (quorum.ready() or Ready(None, [])).batches
    headers = [parse_header(batch) for batch in written]
    assert headers[0].base_offset == 0
    assert all(one.next_offset == other.base_offset for one, other in pairwise(headers))
    assert headers[-1].next_offset == quorum.next_offset
    assert isinstance(quorum.role, Leader)
