"""The messages between the nodes of a quorum, without the fields that only the wire needs.

One field here is one field of Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot (KIP-595,
KIP-630, KIP-853, KIP-996). The shell checks cluster id, topic and partition. Offsets are half-open; -1 stands for no
node and no offset.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kpybroker.machines.raft.roles import NO_NODE
from kpybroker.machines.raft.voters import Voter
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
    """Asks for a vote, or with ``pre_vote`` whether a vote would be granted (KIP-996), which has no lasting effect."""

    epoch: int
    replica: ReplicaKey
    end: OffsetAndEpoch
    """The end of the log of the node that asks."""
    pre_vote: bool
    voter: ReplicaKey
    """The replica that is asked, as far as the sender knows."""


class BeginQuorumEpoch(NamedTuple):
    """Tells a voter which node leads."""

    epoch: int
    leader_id: int
    voter: ReplicaKey


class EndQuorumEpoch(NamedTuple):
    """Tells a voter that the leader resigns, and which nodes should stand for election, the best candidate first."""

    epoch: int
    leader_id: int
    preferred_candidates: tuple[ReplicaKey, ...]


class Fetch(NamedTuple):
    """Asks the leader for the log from ``offset`` on, and confirms that everything below is on the sender's disk."""

    epoch: int
    replica: ReplicaKey
    offset: int
    last_fetched_epoch: int
    high_watermark: int
    """The sender's high watermark (KIP-1166); -1 if it has none yet."""
    max_wait_ms: int = 0
    max_bytes: int = 0
    """The limit on batches; if there is one, at least one comes in any case."""


class FetchSnapshot(NamedTuple):
    """Asks the leader for a part of a snapshot, from byte ``position`` on (KIP-630)."""

    epoch: int
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


class AddVoter(NamedTuple):
    """Asks a leader to make a voter of a replica that follows it already (KIP-853)."""

    voter: Voter
    timeout_ms: int
    ack_when_committed: bool


class RemoveVoter(NamedTuple):
    """Asks a leader to remove a voter."""

    replica: ReplicaKey
    timeout_ms: int


class UpdateVoter(NamedTuple):
    """A voter tells its leader where it listens now, and which levels of ``kraft.version`` it knows."""

    epoch: int
    voter: Voter


class Known(NamedTuple):
    """The fields that every response has: the error, and the leader of the newest epoch that the answering node
    knows."""

    epoch: int
    leader_id: int = NO_NODE
    error_code: int = error_codes.NONE


class VoteResponse(NamedTuple):
    """Whether the vote was granted."""

    known: Known
    granted: bool = False


class EpochResponse(NamedTuple):
    """The response to BeginQuorumEpoch and EndQuorumEpoch."""

    known: Known


class FetchResponse(NamedTuple):
    """Records from the requested offset on, or the place where the logs diverge, or the snapshot that is needed
    first."""

    known: Known
    high_watermark: int = -1
    diverging: OffsetAndEpoch | None = None
    """The largest epoch not above the asker's last one, and its end: cut the log there and ask again."""
    snapshot: OffsetAndEpoch | None = None
    """The snapshot that stands for requested records which are no longer there."""
    batches: Sequence[bytes] = ()
    """Whole batches from the requested offset on. The leader's shell, which has the files, fills them in."""


class FetchSnapshotResponse(NamedTuple):
    """A part of a snapshot. The leader's shell, which has the file, fills in size and bytes."""

    known: Known
    snapshot: OffsetAndEpoch
    position: int = 0
    size_bytes: int = 0
    data: bytes = b""


class VoterResponse(NamedTuple):
    """The response to AddVoter, RemoveVoter and UpdateVoter; ``message`` explains an error, if there is more to say."""

    known: Known
    message: str | None = None


Request = Vote | BeginQuorumEpoch | EndQuorumEpoch | Fetch | FetchSnapshot | AddVoter | RemoveVoter | UpdateVoter
Response = VoteResponse | EpochResponse | FetchResponse | FetchSnapshotResponse | VoterResponse
