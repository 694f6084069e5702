"""One replica of the metadata log: elections, appends, the high watermark.

It serves a quorum of one voter, this node; the roles, the voter history and the messages are those of many.

Invariants: an epoch is led by one node at most, because a vote is on disk before it counts; the first batch of an
epoch is its LEADER_CHANGE; the high watermark never goes back, and covers a record of the leader's own epoch before
anything else.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kpybroker.raft.control_records import control_batch, kraft_version, kraft_voters, leader_change
from kpybroker.raft.roles import Candidate, ElectionState, Leader, Resigned, Role, Unattached
from kpybroker.raft.voters import BOOTSTRAP_OFFSET, Voter, VoterHistory, voter_set
from kpywire.record import Record, build_batch

MAX_BATCH_BYTES = 8 << 20
_RECORD_OVERHEAD_BYTES = 24


class NotLeader(Exception):
    """Raised by an append on a node that does not lead."""


class RecordsTooLarge(Exception):
    """Raised by an append whose records do not fit in one batch."""


class ElectionPersisted(NamedTuple):
    """From the disk: ``quorum-state`` holds this now."""

    election: ElectionState


class LogSynced(NamedTuple):
    """From the disk: the log is durable up to this offset."""

    next_offset: int


class Ready(NamedTuple):
    """What to make durable now: ``quorum-state`` first, then these batches at the end of the log."""

    election: ElectionState | None
    batches: Sequence[bytes]


class Quorum:
    """This node's part of the quorum."""

    def __init__(
        self,
        local: Voter,
        history: VoterHistory,
        election: ElectionState,
        next_offset: int,
        last_epoch: int,
    ) -> None:
        """``history``, ``election``, ``next_offset`` and ``last_epoch`` are what the disk holds."""
        self.local = local
        self.history = history
        self.next_offset = next_offset
        self.role: Role = Unattached(election._replace(epoch=max(election.epoch, last_epoch)))
        self._unsaved_election: ElectionState | None = None
        self._batches: deque[bytes] = deque()

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows."""
        return self.role.election.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the epoch."""
        return isinstance(self.role, Leader)

    @property
    def is_only_voter(self) -> bool:
        """Whether this node, with this disk, is the whole quorum."""
        me = self.history.voters.get(self.local.id)
        known_disk = me is not None and (self.history.kraft_version == 0 or me.directory_id == self.local.directory_id)
        return known_disk and len(self.history.voters) == 1

    @property
    def high_watermark(self) -> int | None:
        """What is committed; None before this epoch has committed anything."""
        return self.role.high_watermark if isinstance(self.role, Leader) else None

    def start(self) -> None:
        """Begin: the only voter stands for election at once."""
        if self.is_only_voter:
            self._stand()

    def step(self, message: ElectionPersisted | LogSynced, now_ms: int) -> None:
        """Take one message in."""
        if isinstance(message, ElectionPersisted):
            self._election_persisted(message.election, now_ms)
        else:
            self._log_synced(message.next_offset)

    def append(self, records: Sequence[bytes], now_ms: int) -> tuple[int, int]:
        """Put records at the end of the log as one batch; their first offset and the one after the last.

        Raises NotLeader, or RecordsTooLarge; then nothing was appended.
        """
        if not isinstance(self.role, Leader):
            raise NotLeader
        if sum(map(len, records)) + _RECORD_OVERHEAD_BYTES * len(records) > MAX_BATCH_BYTES:
            raise RecordsTooLarge
        first_offset = self.next_offset
        batch = build_batch(
            [Record(timestamp=now_ms, value=record) for record in records],
            base_offset=first_offset,
            partition_leader_epoch=self.epoch,
        )
        self._batches.append(batch)
        self.next_offset += len(records)
        return first_offset, self.next_offset

    def ready(self) -> Ready | None:
        """What to make durable, each thing handed out once; None when there is nothing."""
        if self._unsaved_election is None and not self._batches:
            return None
        ready = Ready(self._unsaved_election, list(self._batches))
        self._unsaved_election = None
        self._batches.clear()
        return ready

    def resign(self) -> None:
        """Stop leading for good: the log cannot be written, or the node stops."""
        self.role = Resigned(self.role.election)
        self._batches.clear()

    def _stand(self) -> None:
        election = ElectionState(
            epoch=self.epoch + 1, voted_id=self.local.id, voted_directory_id=self.local.directory_id
        )
        self.role = Candidate(election)
        self._unsaved_election = election

    def _election_persisted(self, election: ElectionState, now_ms: int) -> None:
        role = self.role
        if isinstance(role, Candidate) and role.election == election:
            role.granted.append(self.local.id)
            if len(role.granted) > len(self.history.voters) // 2:
                self._lead(role, now_ms)

    def _lead(self, candidate: Candidate, now_ms: int) -> None:
        election = candidate.election._replace(leader_id=self.local.id)
        self.role = Leader(election, self.next_offset, candidate.granted)
        self._unsaved_election = election
        records = [leader_change(self.local.id, self.history.voters, candidate.granted)]
        if self.history.kraft_version >= 1 and self._voters_need_writing():
            voters = voter_set([*self.history.voters.values(), self.local])
            records += [kraft_version(self.history.kraft_version), kraft_voters(voters)]
            self.history.add_kraft_version(self.next_offset + 1, self.history.kraft_version)
            self.history.add_voters(self.next_offset + 2, voters)
        self._batches.append(control_batch(records, self.next_offset, self.epoch, now_ms))
        self.next_offset += len(records)

    def _voters_need_writing(self) -> bool:
        """``format`` put the voters in a snapshot; the first leader writes them into the log, later one that moved."""
        moved = self.history.voters[self.local.id] != self.local
        return self.history.voters_offset == BOOTSTRAP_OFFSET or moved

    def _log_synced(self, next_offset: int) -> None:
        role = self.role
        if not isinstance(role, Leader):
            return
        role.synced_offset = max(role.synced_offset, next_offset)
        if self.is_only_voter and role.synced_offset > role.epoch_start_offset:
            role.high_watermark = role.synced_offset
