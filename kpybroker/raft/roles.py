"""What this node is in an epoch. Each role is a small object that holds just what that role knows.

Times are milliseconds of a clock that only goes forward; a deadline of ``NEVER`` does not come.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from kpybroker.raft.voters import Voters
from kpywire.uuid import ZERO_UUID

NO_NODE = -1
NEVER = float("inf")


class ElectionState(NamedTuple):
    """What must survive a crash: the epoch, whom this node voted for in it, who was elected (``quorum-state``)."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: bytes = ZERO_UUID


class Unattached:
    """Knows an epoch, but no leader of it; has voted for another or for nobody."""

    __slots__ = ("deadline_ms", "election")

    def __init__(self, election: ElectionState, deadline_ms: float = NEVER) -> None:
        """At ``deadline_ms`` a voter asks whether it could be elected."""
        self.election = election
        self.deadline_ms = deadline_ms


class Votes:
    """What the voters answered; silence is neither, but who is gone will not answer."""

    __slots__ = ("gone", "granted", "needed", "refused", "voters")

    def __init__(self, voters: Iterable[int]) -> None:
        self.voters = frozenset(voters)
        self.needed = len(self.voters) // 2 + 1
        self.granted: list[int] = []
        self.refused: set[int] = set()
        self.gone: set[int] = set()

    def note(self, voter_id: int, *, granted: bool) -> None:
        """One answer; the first of each voter counts."""
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
        """Who has not answered."""
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
        """Who votes for it."""
        return self.votes.granted


class SnapshotProgress:
    """A snapshot that is being fetched, and how much of it has come."""

    __slots__ = ("position", "snapshot")

    def __init__(self, snapshot: tuple[int, int]) -> None:
        """``snapshot`` is (offset, epoch)."""
        self.snapshot = snapshot
        self.position = 0


class Follower:
    """Replicates a leader's log. A voter that hears nothing of it until ``deadline_ms`` looks for another."""

    __slots__ = ("deadline_ms", "election", "has_fetched", "has_told", "is_abandoned", "snapshot", "update_ms")

    def __init__(self, election: ElectionState, deadline_ms: float) -> None:
        self.election = election
        self.deadline_ms = deadline_ms
        self.has_fetched = False
        self.has_told = False
        """Whether the leader knows what this node has told of itself, with ``kraft.version`` 0."""
        self.is_abandoned = False
        """Whether the leader is known to have gone."""
        self.snapshot: SnapshotProgress | None = None
        """Records wait for it."""
        self.update_ms: float = 0
        """From when on the leader may be told where this node listens, if it does not know."""


class Progress:
    """How far a replica is, as its last fetch told, and when it came; -1 for never."""

    __slots__ = ("caught_up_wall_ms", "end_offset", "fetched_ms", "fetched_wall_ms", "leaders_next_offset")

    def __init__(self) -> None:
        self.end_offset = -1
        self.fetched_ms: float = -1
        self.fetched_wall_ms = -1
        self.caught_up_wall_ms = -1
        """When it was last known to have all that the leader had."""
        self.leaders_next_offset = -1
        """Where the leader's log ended when it last fetched."""


class PendingChange(NamedTuple):
    """A change of the voters that is written and not committed."""

    ticket: Any
    next_offset: int
    """Behind its record."""
    deadline_ms: float


class Leader:
    """Leads the epoch. What is on its own disk counts towards the majority; what is only written does not."""

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
        self.replicas: dict[tuple[int, bytes], Progress] = {}
        """Voters and observers, by id and directory."""
        self.majority_ms = now_ms
        """When a majority of voters was last known to follow."""
        self.change: PendingChange | None = None
        self.announce_ms: dict[int, float] = {}
        """By voter: when to tell it again who leads."""
        self.known_voters: Voters = {}
        """With configured voters: what each of them has told of itself."""


class Resigned:
    """Led, and cannot any more: its disk failed, it is stopping, or too few voters follow. Stands again in no epoch
    that it led.
    """

    __slots__ = ("deadline_ms", "election")

    def __init__(self, election: ElectionState, deadline_ms: float = NEVER) -> None:
        self.election = election
        self.deadline_ms = deadline_ms


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned
