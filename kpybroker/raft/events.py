"""What goes into the quorum and what it asks for (etcd's form: ``step`` and ``ready``).

What comes in is from the disk, from other nodes or from the clock. What goes out is done in the order in which
:class:`Ready` names it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.raft.messages import OffsetAndEpoch, Request, Response
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


class SnapshotInstalled(NamedTuple):
    """From the disk: a snapshot of the leader is in place of the log. ``history`` is what it says of the voters."""

    snapshot: OffsetAndEpoch
    history: VoterHistory


class SnapshotChunk(NamedTuple):
    """From the leader: a part of the snapshot came, so it lives."""


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
    """There will be no response: the connection was lost, refused or silent for too long."""

    node_id: int
    request: Request


class Tick(NamedTuple):
    """From the clock: ``deadline_ms`` has come."""


FromDisk = ElectionPersisted | LogSynced | LogTruncated | SnapshotInstalled
FromOthers = SnapshotChunk | Asked | Answered | Unanswered
Message = FromDisk | FromOthers | Tick


class Send(NamedTuple):
    """A request to another node. It is answered by one Answered or Unanswered."""

    node_id: int
    request: Request


class Answer(NamedTuple):
    """A response to another node. Where ``read_from`` is not None, batches from there on belong into it."""

    ticket: Any
    response: Response
    read_from: int | None = None


class Ready(NamedTuple):
    """What to do now, in this order: ``quorum-state`` on disk, the log cut, batches at its end, then what is said."""

    election: ElectionState | None
    batches: Sequence[bytes]
    truncate_to: int | None = None
    said: Sequence[Send | Answer] = ()
    snapshot: OffsetAndEpoch | None = None
    """Fetch this snapshot from the leader and install it in place of the log."""
