"""The leader's view of its followers, from their fetches: what is committed, which replicas follow, which fetches wait.
Pure.

Invariant: a voter counts with the records that its own fetch reported as being on its disk, the leader with those that
it has synced.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.machines.raft.messages import Fetch, ReplicaKey
from kpybroker.machines.raft.roles import Leader, ReplicaProgress
from kpybroker.machines.raft.voters import Voter, Voters
from kpywire.uuid import ZERO_UUID

OBSERVER_SESSION_MS = 300_000
CAUGHT_UP_MS = 3_600_000
MOST_REPLICAS = 1_000
"""The limit on replicas that are remembered. A client may claim any id; voters are always remembered."""


class ParkedFetch(NamedTuple):
    """A fetch that is answered when there is news, or at its deadline."""

    ticket: Any
    fetch: Fetch
    deadline_ms: float

    def has_news(self, next_offset: int, high_watermark: int) -> bool:
        """Whether there are records, or a high watermark that the replica does not know (KIP-1166)."""
        return self.fetch.offset < next_offset or self.fetch.high_watermark < high_watermark


def note_fetch(leader: Leader, voters: Voters, fetch: Fetch, next_offset: int, now_ms: float, wall_ms: int) -> None:
    """Note that a replica has everything below the offset that it asks for. ``next_offset`` is the end of the leader's
    log.

    The replica has caught up if it has everything that the log holds now, or held when it last asked
    (``LeaderState.ReplicaState``).
    """
    known = _progress(leader, voters, fetch.replica, now_ms)
    if known is None:
        return
    if fetch.offset >= next_offset:
        known.caught_up_wall_ms = wall_ms
    elif known.leaders_next_offset <= fetch.offset:
        known.caught_up_wall_ms = known.fetched_wall_ms
    known.leaders_next_offset = next_offset
    known.end_offset, known.fetched_ms, known.fetched_wall_ms = fetch.offset, now_ms, wall_ms


def note_life(leader: Leader, voters: Voters, replica: ReplicaKey, now_ms: float) -> None:
    """Note that a replica is alive and follows, though it acknowledges nothing."""
    known = _progress(leader, voters, replica, now_ms)
    if known is not None:
        known.fetched_ms = now_ms


def _progress(leader: Leader, voters: Voters, replica: ReplicaKey, now_ms: float) -> ReplicaProgress | None:
    """The progress of a replica, to be updated by the caller; None for a client that is no replica, and beyond the
    limit."""
    known = leader.replicas.get(replica)
    if known is None and replica.id >= 0:
        if len(leader.replicas) >= MOST_REPLICAS:
            forget_silent(leader, now_ms)
        if len(leader.replicas) >= MOST_REPLICAS and _is_voter(voters, replica):
            _make_room(leader, voters)
        if len(leader.replicas) < MOST_REPLICAS:
            known = leader.replicas[replica] = ReplicaProgress()
    return known


def _is_voter(voters: Voters, replica: tuple[int, bytes]) -> bool:
    """Whether a replica counts as a voter; a configured voter may have any directory."""
    voter = voters.get(replica[0])
    return voter is not None and voter.directory_id in (ZERO_UUID, replica[1])


def _make_room(leader: Leader, voters: Voters) -> None:
    """Forget the observer that has been silent for longest; if there is none, the voter that has."""
    last = min(leader.replicas, key=lambda each: (_is_voter(voters, each), leader.replicas[each].fetched_ms))
    del leader.replicas[last]


def forget_silent(leader: Leader, now_ms: float) -> None:
    """Forget observers that have not fetched for long."""
    for replica, progress in list(leader.replicas.items()):
        if progress.fetched_ms < now_ms - OBSERVER_SESSION_MS:
            del leader.replicas[replica]


def caught_up(leader: Leader, replica: ReplicaKey, now_ms: float) -> bool:
    """Whether a replica has had everything that the leader had, and has fetched within the last hour, as in Kafka."""
    known = leader.replicas.get(replica)
    return known is not None and known.caught_up_wall_ms > 0 and known.fetched_ms > now_ms - CAUGHT_UP_MS


def progress_of(leader: Leader, voter: Voter) -> ReplicaProgress:
    """The progress of a voter; a configured voter may have any directory."""
    exact = leader.replicas.get(ReplicaKey(voter.id, voter.directory_id))
    if exact is not None or voter.directory_id != ZERO_UUID:
        return exact or ReplicaProgress()
    of_node = [each for replica, each in leader.replicas.items() if replica[0] == voter.id]
    return max(of_node, key=lambda each: each.fetched_ms, default=ReplicaProgress())


def committed(leader: Leader, local_id: int, voters: Voters) -> int | None:
    """The offset that a majority of the voters has reached, if it is new and covers a record of this epoch (Raft's
    section 5.4.2)."""
    offsets = [
        leader.synced_offset if voter.id == local_id else progress_of(leader, voter).end_offset
        for voter in voters.values()
    ]
    if not offsets:
        return None
    offset = _reached_by_majority(offsets)
    known = leader.epoch_start_offset if leader.high_watermark is None else leader.high_watermark
    return int(offset) if offset > known else None


def majority_ms(leader: Leader, local_id: int, voters: Voters) -> float:
    """The last time when a majority, the leader included, was known to follow it."""
    times = [
        float("inf") if voter.id == local_id else progress_of(leader, voter).fetched_ms for voter in voters.values()
    ]
    return max(leader.majority_ms, _reached_by_majority(times)) if times else leader.majority_ms


def _reached_by_majority(values: Sequence[float]) -> float:
    return sorted(values, reverse=True)[len(values) // 2]
