"""The state of a node in the quorum: its role in its epoch, and the changes of role (Kafka's ``QuorumState``). Pure.

Not here: the messages that each role sends, and the log; those are in `kpybroker.machines.raft.quorum`.

Invariant: the epoch never goes back, and every change of epoch, vote or known leader is handed out to be saved.
"""

from collections.abc import Callable, Collection

from kpybroker.machines.raft import leading
from kpybroker.machines.raft.conversations import Conversations
from kpybroker.machines.raft.errors import QuorumBroken
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import FetchResponse, Known, ReplicaKey, VoterResponse
from kpybroker.machines.raft.roles import (
    NEVER,
    NO_NODE,
    Candidate,
    ElectionState,
    Follower,
    HeardLeader,
    Leader,
    Prospective,
    Role,
    Unattached,
    Votes,
)
from kpybroker.machines.raft.timing import Timing
from kpybroker.machines.raft.voters import Voter, VoterHistory
from kpywire import error_codes
from kpywire.uuid import ZERO_UUID

FIRST_BACKOFF_MS = 100


class QuorumState:
    """The role, the epoch and the known voters."""

    def __init__(
        self,
        local: Voter,
        history: VoterHistory,
        election: ElectionState,
        log: LogView,
        timing: Timing,
        draw: Callable[[int], int],
    ) -> None:
        self.local = local
        self.history = history
        self.log = log
        self.timing = timing
        if log.end.epoch > election.epoch:
            election = ElectionState(log.end.epoch)  # of that epoch quorum-state says nothing
        self.role: Role = Unattached(election)
        self._draw = draw
        self._may_vote = True
        self._lost_elections = 0
        self._unsaved_election: ElectionState | None = None
        self._saving: ElectionState | None = None
        self._talks = Conversations()
        self._parked: list[leading.ParkedFetch] = []
        self.heard_leader: HeardLeader | None = None
        """The leader that this node follows or followed last; None before its first answer."""

    # What it is.

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows."""
        return self.role.election.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; -1 if this node does not know it."""
        return self.role.election.leader_id

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the epoch."""
        return isinstance(self.role, Leader)

    @property
    def me(self) -> ReplicaKey:
        """This node with this disk."""
        return ReplicaKey(self.local.id, self.local.directory_id)

    @property
    def is_voter(self) -> bool:
        """Whether this node, with this disk, may vote and be elected."""
        return self._may_vote and self.is_voting(self.me)

    @property
    def is_only_voter(self) -> bool:
        """Whether this node, with this disk, is the whole quorum."""
        return self.is_voter and len(self.history.voters) == 1

    @property
    def may_stand(self) -> bool:
        """Whether this node may be elected now: not while it lacks records that it may have helped to commit."""
        return self.is_voter and (self.is_only_voter or not self.log.has_lost)

    def is_voting(self, replica: ReplicaKey) -> bool:
        """Whether a replica, with the disk that it has, is a voter."""
        known = self.history.voters.get(replica.id)
        if known is None:
            return False
        return self.history.kraft_version == 0 or known.directory_id == replica.directory_id

    @property
    def _others(self) -> list[int]:
        return [voter_id for voter_id in self.history.voters if voter_id != self.local.id]

    @property
    def _is_saving(self) -> bool:
        """Whether `quorum-state` on disk is behind; no message is sent meanwhile."""
        return self._saving is not None or self._unsaved_election is not None

    # Roles.

    def _election_deadline(self, now_ms: float) -> float:
        if not self.is_voter:
            return NEVER
        timeout_ms = self.timing.election_timeout_ms
        return now_ms + timeout_ms + self._draw(timeout_ms)

    def _backoff(self) -> int:
        """The delay after a lost election: random, from a range that grows with each one (KIP-595)."""
        self._lost_elections += 1
        range_ms = FIRST_BACKOFF_MS << min(self._lost_elections - 1, 16)
        return self._draw(min(range_ms, self.timing.election_backoff_max_ms))

    def _save(self, election: ElectionState) -> None:
        self._unsaved_election = election

    def _leave(self, role: Role) -> None:
        """Take another role. Answers to requests of the old role are ignored."""
        if isinstance(self.role, Leader) and self.role.change is not None:
            known = Known(role.election.epoch, role.election.leader_id, error_codes.NOT_LEADER_OR_FOLLOWER)
            self._talks.answer(self.role.change.ticket, VoterResponse(known))
        if self._parked:
            known = Known(role.election.epoch, role.election.leader_id, error_codes.NOT_LEADER_OR_FOLLOWER)
            for parked in self._parked:
                self._talks.answer(parked.ticket, FetchResponse(known))
            self._parked.clear()
        self._talks.forget()
        self.role = role

    def _unattach(self, epoch: int, now_ms: float) -> None:
        """Enter a newer epoch whose leader is not known."""
        role = self.role
        deadline_ms = NEVER if isinstance(role, Leader | Follower) else role.deadline_ms
        if deadline_ms == NEVER:
            deadline_ms = self._election_deadline(now_ms)
        election = ElectionState(epoch)
        self._save(election)
        self._leave(Unattached(election, deadline_ms))

    def _follow(self, epoch: int, leader_id: int, now_ms: float) -> None:
        current = self.role.election
        election = current._replace(leader_id=leader_id) if epoch == current.epoch else ElectionState(epoch, leader_id)
        if election != current:
            self._save(election)
        self._lost_elections = 0
        self.heard_leader = None
        self._leave(Follower(election, now_ms + self.timing.fetch_timeout_ms))

    def _ask_before_standing(self, now_ms: float) -> None:
        votes = Votes(self.history.voters, self._unheard)
        votes.note(self.local.id, granted=True)
        self._leave(Prospective(self.role.election, votes, self._election_deadline(now_ms)))
        if votes.is_won:
            self._stand(now_ms)

    def _stand(self, now_ms: float) -> None:
        election = ElectionState(self.epoch + 1, NO_NODE, self.local.id, self.local.directory_id)
        deadline_ms = NEVER if self.is_only_voter else self._election_deadline(now_ms)
        self._save(election)
        self._leave(Candidate(election, Votes(self.history.voters, self._unheard), deadline_ms))

    @property
    def _unheard(self) -> Collection[int]:
        """The voters that this node does not hear: the leader that it gives up, and those that did not answer since."""
        match self.role:
            case Follower() as role:
                return (role.election.leader_id,)
            case Prospective() | Candidate() as role:
                return role.votes.gone
            case _:
                return ()

    def _give_up(self, role: Prospective, now_ms: float) -> None:
        """Give up this attempt: most voters would refuse, so the leader that this node lost may still be there."""
        election = role.election
        deadline_ms = now_ms + self._backoff() if role.votes.gone else self._election_deadline(now_ms)
        if election.leader_id not in (NO_NODE, self.local.id):
            self._leave(Follower(election, deadline_ms))
        else:
            self._leave(Unattached(election, deadline_ms))

    def _note_leader(self, epoch: int, leader_id: int, now_ms: float) -> None:
        """Note the leader of an epoch, or a newer epoch, as another node reports it. Raises QuorumBroken."""
        if epoch < self.epoch or (epoch == self.epoch and leader_id in (NO_NODE, self.local.id)):
            return  # what this node led on a disk that it has lost is news to it, and no use
        known = self.role.election.leader_id
        if epoch == self.epoch and known != NO_NODE:
            if known != leader_id:
                raise QuorumBroken(f"nodes {known} and {leader_id} both lead epoch {epoch}")
        elif leader_id in (NO_NODE, self.local.id):
            self._unattach(epoch, now_ms)
        else:
            self._follow(epoch, leader_id, now_ms)

    # Other nodes.

    def _known(self, error_code: int = error_codes.NONE) -> Known:
        return Known(self.epoch, self.role.election.leader_id, error_code)

    def _is_me(self, voter: ReplicaKey) -> bool:
        same_disk = voter.directory_id in (ZERO_UUID, self.local.directory_id)
        return voter.id in (NO_NODE, self.local.id) and same_disk
