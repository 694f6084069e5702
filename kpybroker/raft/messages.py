"""What the nodes of a quorum say to one another, without what only the wire needs.

One field here is one field of Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot (KIP-595,
KIP-630, KIP-853, KIP-996); cluster id, topic and partition are the shell's to check. Offsets are half-open, -1 is
nobody and nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kpybroker.raft.roles import NO_NODE
from kpybroker.raft.voters import Voter
from kpywire import error_codes
from kpywire.uuid import ZERO_UUID


class ReplicaKey(NamedTuple):
    """A node with one disk. A node that lost its disk is another replica, since it forgot its vote."""

    id: int
    directory_id: bytes = ZERO_UUID


class OffsetAndEpoch(NamedTuple):
    """A place in the log: ``offset``, and the epoch of the record before it."""

    offset: int
    epoch: int


class Vote(NamedTuple):
    """Asks for a vote, or with ``pre_vote`` whether there would be one (KIP-996), which binds nobody."""

    epoch: int
    replica: ReplicaKey
    end: OffsetAndEpoch
    """Where the log of the one that asks ends."""
    pre_vote: bool
    voter: ReplicaKey
    """Who is asked, as far as the one that asks knows."""


class BeginQuorumEpoch(NamedTuple):
    """Tells a voter who leads."""

    epoch: int
    leader_id: int
    voter: ReplicaKey


class EndQuorumEpoch(NamedTuple):
    """Tells a voter that the leader resigns, and who should stand for election, the best candidate first."""

    epoch: int
    leader_id: int
    preferred_candidates: tuple[ReplicaKey, ...]


class Fetch(NamedTuple):
    """Asks the leader for the log from ``offset`` on; also says that all below it is on the asker's disk."""

    epoch: int
    replica: ReplicaKey
    offset: int
    last_fetched_epoch: int
    high_watermark: int
    """What the asker knows to be committed (KIP-1166); -1 for nothing yet."""
    max_wait_ms: int = 0
    max_bytes: int = 0
    """Of batches; one comes in any case, if there is one."""


class FetchSnapshot(NamedTuple):
    """Asks the leader for a part of a snapshot, from byte ``position`` on (KIP-630)."""

    epoch: int
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


class AddVoter(NamedTuple):
    """Asks a leader to let a replica vote that follows it already (KIP-853)."""

    voter: Voter
    timeout_ms: int
    ack_when_committed: bool


class RemoveVoter(NamedTuple):
    """Asks a leader to let a voter vote no more."""

    replica: ReplicaKey
    timeout_ms: int


class UpdateVoter(NamedTuple):
    """A voter tells its leader where it listens now, and which levels of ``kraft.version`` it knows."""

    epoch: int
    voter: Voter


class Known(NamedTuple):
    """What every response says besides: what went wrong, and who leads the newest epoch the answering node knows."""

    epoch: int
    leader_id: int = NO_NODE
    error_code: int = error_codes.NONE


class VoteResponse(NamedTuple):
    """Whether the vote was granted."""

    known: Known
    granted: bool = False


class EpochResponse(NamedTuple):
    """To BeginQuorumEpoch and EndQuorumEpoch."""

    known: Known


class FetchResponse(NamedTuple):
    """Records from the offset that was asked for, or where the logs part, or that a snapshot is needed first."""

    known: Known
    high_watermark: int = -1
    diverging: OffsetAndEpoch | None = None
    """The largest epoch not above the asker's last one, and where it ends: cut the log there and ask again."""
    snapshot: OffsetAndEpoch | None = None
    """Stands for records that are asked for and not there any more."""
    batches: Sequence[bytes] = ()
    """Put in by the shell of the leader, which has the files: from the offset asked for on, whole batches."""


class FetchSnapshotResponse(NamedTuple):
    """A part of a snapshot. Size and bytes are put in by the shell of the leader, which has the file."""

    known: Known
    snapshot: OffsetAndEpoch
    position: int = 0
    size_bytes: int = 0
    data: bytes = b""


class VoterResponse(NamedTuple):
    """To AddVoter, RemoveVoter and UpdateVoter; ``message`` says what is wrong, where there is something to say."""

    known: Known
    message: str | None = None


Request = Vote | BeginQuorumEpoch | EndQuorumEpoch | Fetch | FetchSnapshot | AddVoter | RemoveVoter | UpdateVoter
Response = VoteResponse | EpochResponse | FetchResponse | FetchSnapshotResponse | VoterResponse
