"""What a leader makes of its followers' fetches: what is committed, who follows, which fetches wait. Pure.

Invariant: a voter counts with what its own fetch said is on its disk, the leader with what it has synced.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.raft.messages import Fetch, ReplicaKey
from kpybroker.raft.roles import Leader, Progress
from kpybroker.raft.voters import Voters


class Parked(NamedTuple):
    """A fetch that is answered when there is news, or at its deadline."""

    ticket: Any
    fetch: Fetch
    deadline_ms: float

    def has_news(self, next_offset: int, high_watermark: int) -> bool:
        """Records, or a high watermark that the replica does not know (KIP-1166)."""
        return self.fetch.offset < next_offset or self.fetch.high_watermark < high_watermark


def note_fetch(leader: Leader, fetch: Fetch, now_ms: float) -> None:
    """A voter has everything below the offset that it asks for."""
    leader.voters[fetch.replica] = Progress(fetch.offset, now_ms)


def note_life(leader: Leader, replica: ReplicaKey, now_ms: float) -> None:
    """A voter is there and follows, though it acknowledges nothing."""
    known = leader.voters.get(replica)
    leader.voters[replica] = Progress(-1 if known is None else known.end_offset, now_ms)


def acknowledged(leader: Leader, voter_id: int) -> int:
    """Up to where a voter has the log; -1 if it has not fetched from this leader."""
    return max([each.end_offset for key, each in leader.voters.items() if key[0] == voter_id], default=-1)


def _fetched_ms(leader: Leader, voter_id: int) -> float:
    return max([each.fetched_ms for key, each in leader.voters.items() if key[0] == voter_id], default=-1)


def committed(leader: Leader, local_id: int, voters: Voters) -> int | None:
    """What a majority of the voters has, if it is news and covers a record of this epoch (Raft's section 5.4.2)."""
    offsets = [leader.synced_offset if each == local_id else acknowledged(leader, each) for each in voters]
    if not offsets:
        return None
    offset = _reached_by_majority(offsets)
    known = leader.epoch_start_offset if leader.high_watermark is None else leader.high_watermark
    return int(offset) if offset > known else None


def majority_ms(leader: Leader, local_id: int, voters: Voters) -> float:
    """When a majority, the leader included, was last known to follow it."""
    times = [float("inf") if each == local_id else _fetched_ms(leader, each) for each in voters]
    return max(leader.majority_ms, _reached_by_majority(times)) if times else leader.majority_ms


def _reached_by_majority(values: Sequence[float]) -> float:
    return sorted(values, reverse=True)[len(values) // 2]
