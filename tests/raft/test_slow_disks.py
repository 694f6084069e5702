"""A slow disk is nobody's silence: who waits for its own does not stand against a leader that it cannot ask."""

from collections.abc import Callable

import pytest

from kpybroker.machines.raft.events import (
    Answer,
    Answered,
    Asked,
    ElectionPersisted,
    LogSynced,
    Message,
    Ready,
    Send,
    SnapshotBroken,
    SnapshotInstalled,
    SnapshotPart,
    Tick,
)
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import (
    BeginQuorumEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Known,
    OffsetAndEpoch,
    ReplicaKey,
    Vote,
    VoteResponse,
)
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import ElectionState, Follower
from kpybroker.machines.raft.voters import Voter, VoterHistory, voter_set
from kpystorage.leader_epochs import LeaderEpochs
from kpywire.record import Record, build_batch

VOTERS = [Voter(1), Voter(2), Voter(3)]
SNAPSHOT = OffsetAndEpoch(50, 1)
LONG_MS = 10_000.0
ASK_BEFORE = Vote(1, ReplicaKey(3), OffsetAndEpoch(1000, 1), True, ReplicaKey(1))


def written() -> VoterHistory:
    """The log names the voters, so that none of them has to tell of itself."""
    history = VoterHistory()
    history.add_kraft_version(0, 1)
    history.add_voters(0, voter_set(VOTERS))
    return history


def follower() -> Quorum:
    """Node 1 of three, which follows node 2."""
    log = LogView(1, LeaderEpochs([(1, 0)]), synced_offset=1)
    quorum = Quorum(VOTERS[0], written(), ElectionState(1, leader_id=2), log)
    quorum.start(0)
    return quorum


def next_ready(quorum: Quorum) -> Ready:
    ready = quorum.ready()
    assert ready is not None
    return ready


def request_in(ready: Ready) -> Fetch | FetchSnapshot:
    (request,) = [outgoing.request for outgoing in ready.outgoing if isinstance(outgoing, Send)]
    assert isinstance(request, Fetch | FetchSnapshot)
    return request


def fetch_snapshot(quorum: Quorum) -> None:
    """Let it fetch the whole of a snapshot at once."""
    fetch = request_in(next_ready(quorum))
    quorum.step(Answered(2, fetch, FetchResponse(Known(quorum.epoch, 2), 60, snapshot=SNAPSHOT)), 0)
    asked = request_in(next_ready(quorum))
    assert isinstance(asked, FetchSnapshot)
    answer = FetchSnapshotResponse(Known(quorum.epoch, 2), SNAPSHOT, 0, 3, b"abc")
    quorum.step(Answered(2, asked, answer), 0)
    assert next_ready(quorum).snapshot_parts == [SnapshotPart(SNAPSHOT, 0, b"abc", True)]


def replicate(quorum: Quorum) -> None:
    """Let it take a batch of its leader over."""
    batch = build_batch([Record(timestamp=0, value=b"a")], base_offset=1, partition_leader_epoch=1)
    fetch = request_in(next_ready(quorum))
    quorum.step(Answered(2, fetch, FetchResponse(Known(1, 2), 1, batches=[batch])), 0)
    assert next_ready(quorum).batches == [batch]


@pytest.mark.parametrize(
    ("begin", "done"),
    [(fetch_snapshot, SnapshotInstalled(SNAPSHOT, written())), (replicate, LogSynced(2))],
    ids=["snapshot", "log"],
)
def test_a_node_that_waits_for_its_disk_starts_no_election(begin: Callable[[Quorum], None], done: Message) -> None:
    quorum = follower()
    begin(quorum)
    quorum.step(Tick(), LONG_MS)
    assert isinstance(quorum.role, Follower)
    assert quorum.ready() is None, "it cannot ask for anything"
    assert quorum.deadline_ms > LONG_MS, "nothing is due"
    quorum.step(Asked("before", ASK_BEFORE), LONG_MS)
    assert next_ready(quorum).outgoing == [Answer("before", VoteResponse(Known(1, 2), True))], "another may"
    quorum.step(done, LONG_MS)
    assert isinstance(quorum.role, Follower)
    assert quorum.role.deadline_ms == LONG_MS + quorum.timing.fetch_timeout_ms


def test_a_snapshot_that_is_made_durable_is_not_fetched_once_more() -> None:
    quorum = follower()
    fetch_snapshot(quorum)
    quorum.step(Asked("begin", BeginQuorumEpoch(2, 3, ReplicaKey(1))), 1)
    election = next_ready(quorum).election
    assert election is not None
    quorum.step(ElectionPersisted(election), 1)
    fetch = request_in(next_ready(quorum))
    quorum.step(Answered(3, fetch, FetchResponse(Known(2, 3), 60, snapshot=SNAPSHOT)), 2)
    assert quorum.ready() is None
    quorum.step(SnapshotBroken(SNAPSHOT), 3)
    quorum.step(Tick(), 3 + quorum.timing.retry_backoff_ms)
    assert isinstance(request_in(next_ready(quorum)), Fetch), "now it is asked for again"
