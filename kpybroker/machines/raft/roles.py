"""The roles of this node in an epoch. Each one is a small object that holds just what that role knows.

Times are milliseconds of a clock that only goes forward; a deadline of ``NEVER`` does not come.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from kpybroker.machines.raft.voters import Voters
from kpywire.uuid import ZERO_UUID

NO_NODE = -1
NEVER = float("inf")


class ElectionState(NamedTuple):
    """The state that must survive a crash: the epoch, this node's vote in it, and the elected leader
    (``quorum-state``)."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: bytes = ZERO_UUID


class HeardLeader(NamedTuple):
    """The leader of the quorum that a node follows or followed last, and the time of its last answer."""

    node_id: int
    heard_ms: float


class Unattached:
    """Knows an epoch, but no leader of it; has voted for another replica or for none."""

    __slots__ = ("deadline_ms", "election")

    def __init__(self, election: ElectionState, deadline_ms: float = NEVER) -> None:
        """At ``deadline_ms`` a voter asks whether it could be elected."""
        self.election = election
        self.deadline_ms = deadline_ms


class Votes:
    """The voters' answers. Silence counts as neither yes nor no, but a voter that is gone will not answer."""

    __slots__ = ("gone", "granted", "needed", "refused", "voters")

    def __init__(self, voters: Iterable[int], gone: Iterable[int] = ()) -> None:
        """``gone`` are voters that are not expected to answer, as the leader that was lost."""
        self.voters = frozenset(voters)
        self.needed = len(self.voters) // 2 + 1
        self.granted: list[int] = []
        self.refused: set[int] = set()
        self.gone = set(self.voters.intersection(gone))

    def note(self, voter_id: int, *, granted: bool) -> None:
        """Note one answer; the first one of each voter counts."""
        if voter_id in self.voters and voter_id not in self.refused and voter_id not in self.granted:
            if granted:
                self.granted.append(voter_id)
            else:
                self.refused.add(voter_id)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.needed

    @property
    def is_lost(self) -> bool:
        return len(self.voters) - len(self.refused | self.gone) < self.needed

    @property
    def missing(self) -> list[int]:
        """The voters that have not answered."""
        return sorted(self.voters - self.refused - set(self.granted))


class Prospective:
    """Asks whether it could be elected, before it disturbs anybody with a new epoch (KIP-996)."""

    __slots__ = ("deadline_ms", "election", "votes")

    def __init__(self, election: ElectionState, votes: Votes, deadline_ms: float) -> None:
        self.election = election
        self.votes = votes
        self.deadline_ms = deadline_ms


class Candidate:
    """Stands for election. Its own vote counts once it is on disk."""

    __slots__ = ("deadline_ms", "election", "is_lost", "votes")

    def __init__(self, election: ElectionState, votes: Votes, deadline_ms: float = NEVER) -> None:
        self.election = election
        self.votes = votes
        self.deadline_ms = deadline_ms
        self.is_lost = False

    @property
    def granted(self) -> list[int]:
        """The voters that grant their vote."""
        return self.votes.granted


class SnapshotProgress:
    """The progress of a snapshot that is being fetched."""

    __slots__ = ("position", "snapshot")

    def __init__(self, snapshot: tuple[int, int]) -> None:
        """``snapshot`` is (offset, epoch)."""
        self.snapshot = snapshot
        self.position = 0


class Follower:
    """Replicates a leader's log. If a voter hears nothing from the leader until ``deadline_ms``, it looks for
    another."""

    __slots__ = ("deadline_ms", "election", "has_fetched", "has_reported", "is_abandoned", "snapshot", "update_ms")

    def __init__(self, election: ElectionState, deadline_ms: float) -> None:
        self.election = election
        self.deadline_ms = deadline_ms
        self.has_fetched = False
        self.has_reported = False
        """Whether the leader has this node's own data, with ``kraft.version`` 0."""
        self.is_abandoned = False
        """Whether the leader is known to have gone."""
        self.snapshot: SnapshotProgress | None = None
        """The snapshot that must be fetched before any records."""
        self.update_ms: float = 0
        """The earliest time to inform the leader where this node listens, if the leader does not know."""


class ReplicaProgress:
    """The progress of a replica as of its last fetch, and the time of that fetch; -1 for never."""

    __slots__ = ("caught_up_wall_ms", "end_offset", "fetched_ms", "fetched_wall_ms", "leaders_next_offset")

    def __init__(self) -> None:
        self.end_offset = -1
        self.fetched_ms: float = -1
        self.fetched_wall_ms = -1
        self.caught_up_wall_ms = -1
        """The last time when it was known to have everything that the leader had."""
        self.leaders_next_offset = -1
        """The end of the leader's log at its last fetch."""


class PendingChange(NamedTuple):
    """A change of the voters that is written and not committed."""

    ticket: Any
    next_offset: int
    """The offset after its record."""
    deadline_ms: float


class Leader:
    """Leads the epoch. Records on its own disk count towards the majority; records that are written but not synced do
    not."""

    __slots__ = (
        "announce_ms", "change", "election", "epoch_start_offset", "granted", "high_watermark", "known_voters",
        "majority_ms", "replicas", "synced_offset",
    )  # fmt: skip

    def __init__(self, election: ElectionState, epoch_start_offset: int, granted: list[int], now_ms: float = 0) -> None:
        self.election = election
        self.epoch_start_offset = epoch_start_offset
        self.granted = granted
        self.synced_offset = epoch_start_offset
        self.high_watermark: int | None = None
        self.replicas: dict[tuple[int, bytes], ReplicaProgress] = {}
        """The voters and observers, by id and directory."""
        self.majority_ms = now_ms
        """The last time when a majority of voters was known to follow."""
        self.change: PendingChange | None = None
        self.announce_ms: dict[int, float] = {}
        """The next time to announce the leader, by voter."""
        self.known_voters: Voters = {}
        """With configured voters: the data that each of them has reported about itself."""


class Resigned:
    """Led, and cannot any more: its disk failed, it is stopping, or too few voters follow. It never again stands in an
    epoch that it led."""

    __slots__ = ("deadline_ms", "election")

    def __init__(self, election: ElectionState, deadline_ms: float = NEVER) -> None:
        self.election = election
        self.deadline_ms = deadline_ms


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned
