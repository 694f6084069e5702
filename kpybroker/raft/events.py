"""What goes into the quorum and what it asks for (etcd's form: ``step`` and ``ready``).

What comes in is from the disk, from other nodes or from the clock. What goes out is done in the order in which
:class:`Ready` names it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.raft.messages import FetchSnapshot, OffsetAndEpoch, Request, Response
from kpybroker.raft.roles import ElectionState
from kpybroker.raft.voters import VoterHistory


class ElectionPersisted(NamedTuple):
    """From the disk: ``quorum-state`` holds this now."""

    election: ElectionState


class LogSynced(NamedTuple):
    """From the disk: the log is durable up to this offset."""

    next_offset: int


class LogTruncated(NamedTuple):
    """From the disk: the log was cut as asked for."""


class SnapshotWritten(NamedTuple):
    """From the disk: this node made a snapshot of its own, or the log begins later than it did."""

    snapshot: OffsetAndEpoch
    start_offset: int


class SnapshotInstalled(NamedTuple):
    """From the disk: a snapshot of the leader is whole and durable. ``history`` is what it says of the voters."""

    snapshot: OffsetAndEpoch
    history: VoterHistory


class SnapshotBroken(NamedTuple):
    """From the disk: what the leader sent as this snapshot is none."""

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
    """There will be no response: the connection was lost, refused or silent for too long.

    ``is_gone``: the process that was asked has ended, as its own machine says.
    """

    node_id: int
    request: Request
    is_gone: bool = False


class Tick(NamedTuple):
    """From the clock: ``deadline_ms`` has come."""


FromDisk = ElectionPersisted | LogSynced | LogTruncated | SnapshotWritten | SnapshotInstalled | SnapshotBroken
FromOthers = Asked | Answered | Unanswered
Message = FromDisk | FromOthers | Tick


class Send(NamedTuple):
    """A request to another node. It is answered by one Answered or Unanswered."""

    node_id: int
    request: Request


class Answer(NamedTuple):
    """A response to another node. Where ``read_from`` is not None, batches from there on, or that part of a snapshot,
    belong into it.
    """

    ticket: Any
    response: Response
    read_from: int | FetchSnapshot | None = None


class SnapshotPart(NamedTuple):
    """Bytes of a leader's snapshot; after the last part it is to be made durable and read."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes
    is_last: bool


class Ready(NamedTuple):
    """What to do now, in this order: ``quorum-state`` on disk, the log cut, or emptied to begin at ``start_at``,
    batches at its end, then what is said.
    """

    election: ElectionState | None
    batches: Sequence[bytes]
    truncate_to: int | None = None
    said: Sequence[Send | Answer] = ()
    start_at: int | None = None
    snapshot_parts: Sequence[SnapshotPart] = ()
    """Of a leader's snapshot, in order."""
