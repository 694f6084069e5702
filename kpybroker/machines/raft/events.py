"""The inputs and outputs of the quorum (etcd's form: ``step`` and ``ready``).

Inputs come from the disk, from other nodes or from the clock. Outputs are carried out in the order in which
:class:`Ready` names them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.machines.raft.messages import FetchSnapshot, OffsetAndEpoch, Request, Response
from kpybroker.machines.raft.roles import ElectionState
from kpybroker.machines.raft.voters import VoterHistory


class ElectionPersisted(NamedTuple):
    """From the disk: ``quorum-state`` holds this election state now."""

    election: ElectionState


class LogSynced(NamedTuple):
    """From the disk: the log is durable up to this offset."""

    next_offset: int


class LogTruncated(NamedTuple):
    """From the disk: the log was cut as asked for."""


class SnapshotWritten(NamedTuple):
    """From the disk: this node wrote a snapshot of its own, or the log begins later than before."""

    snapshot: OffsetAndEpoch
    start_offset: int


class SnapshotInstalled(NamedTuple):
    """From the disk: a snapshot of the leader is complete and durable. ``history`` holds its voters and
    ``kraft.version``."""

    snapshot: OffsetAndEpoch
    history: VoterHistory


class SnapshotBroken(NamedTuple):
    """From the disk: the data that the leader sent as this snapshot is not a valid snapshot."""

    snapshot: OffsetAndEpoch


class Asked(NamedTuple):
    """From another node: a request, to be answered under its ticket."""

    ticket: Any
    request: Request


class Answered(NamedTuple):
    """From another node: the response to a request of this one."""

    node_id: int
    request: Request
    response: Response


class Unanswered(NamedTuple):
    """No response will come: the connection was lost or refused, or was silent for too long.

    ``is_gone``: the process that was asked has ended, as its own machine reported.
    """

    node_id: int
    request: Request
    is_gone: bool = False


class Tick(NamedTuple):
    """From the clock: the time ``deadline_ms`` has come."""


FromDisk = ElectionPersisted | LogSynced | LogTruncated | SnapshotWritten | SnapshotInstalled | SnapshotBroken
FromOthers = Asked | Answered | Unanswered
Message = FromDisk | FromOthers | Tick


class Send(NamedTuple):
    """A request to another node. It is answered by one Answered or Unanswered."""

    node_id: int
    request: Request


class Answer(NamedTuple):
    """A response to another node. If ``read_from`` is not None, it needs batches from that offset on, or that part of a
    snapshot."""

    ticket: Any
    response: Response
    read_from: int | FetchSnapshot | None = None


class SnapshotPart(NamedTuple):
    """Bytes of a leader's snapshot. After the last part it must be made durable and read."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes
    is_last: bool


class Ready(NamedTuple):
    """The work to do now, in this order: save ``quorum-state``, cut the log, or empty it to begin at ``start_at``,
    append batches, then send messages."""

    election: ElectionState | None
    batches: Sequence[bytes]
    truncate_to: int | None = None
    outgoing: Sequence[Send | Answer] = ()
    start_at: int | None = None
    snapshot_parts: Sequence[SnapshotPart] = ()
    """Parts of a leader's snapshot, in order."""
