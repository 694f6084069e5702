"""The replies of a node to requests of others: votes, the known leader and, as the leader, the log and changes of the
voters. Pure.

Not here: this node's own requests, and their times; those are in `kpybroker.machines.raft.quorum`. The order of the
checks is Kafka's.

Invariant: the records that a leader counts as committed include one of its own epoch.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kpybroker.machines.raft import leading, version_upgrade, voter_changes, voting
from kpybroker.machines.raft.control_records import control_batch, kraft_voters
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import (
    AddVoter,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Known,
    RemoveVoter,
    ReplicaKey,
    Request,
    UpdateVoter,
    Vote,
    VoteResponse,
    VoterResponse,
)
from kpybroker.machines.raft.quorum_state import QuorumState
from kpybroker.machines.raft.roles import NO_NODE, ElectionState, Follower, Leader, PendingChange, Unattached
from kpybroker.machines.raft.timing import Timing
from kpybroker.machines.raft.voters import Voter, VoterHistory, Voters
from kpywire import error_codes

NEWEST_EPOCH = 2**31 - 1 - 1_000_000
"""The highest epoch that is believed. No quorum gets that far, and epochs must be left for the elections that
follow."""


class Answering(QuorumState):
    """The answering side of one replica."""

    def __init__(
        self,
        local: Voter,
        history: VoterHistory,
        election: ElectionState,
        log: LogView,
        timing: Timing,
        draw: Callable[[int], int],
    ) -> None:
        super().__init__(local, history, election, log, timing, draw)
        self.high_watermark: int | None = None
        """The offset below which records are known to be committed; None before any are."""
        self.leaders_high_watermark: int | None = None
        """The high watermark that the leader, which may be this node, reported when it was first heard from."""
        self._wall_ms = 0

    @property
    def next_offset(self) -> int:
        """The offset of the next batch."""
        return self.log.next_offset

    # What is asked of this node.

    def _asked(self, ticket: Any, request: Request, now_ms: float) -> None:
        match request:
            case Vote():
                self._talks.answer(ticket, self._vote(request, now_ms))
            case BeginQuorumEpoch():
                self._talks.answer(ticket, EpochResponse(self._begin_epoch(request, now_ms)))
            case EndQuorumEpoch():
                self._talks.answer(ticket, EpochResponse(self._end_epoch(request, now_ms)))
            case Fetch():
                self._fetch(ticket, request, now_ms)
            case FetchSnapshot():
                self._fetch_snapshot(ticket, request, now_ms)
            case AddVoter() | RemoveVoter() | UpdateVoter():
                self._change_voters(ticket, request, now_ms)

    def _vote(self, vote: Vote, now_ms: float) -> VoteResponse:
        is_ahead = vote.end.epoch > vote.epoch or (vote.end.epoch == vote.epoch and not vote.pre_vote)
        if is_ahead or min(vote.end) < 0:
            return VoteResponse(self._known(error_codes.INVALID_REQUEST))
        error_code = self._wrong_claim(vote.epoch, vote.replica.id)
        if error_code != error_codes.NONE:
            return VoteResponse(self._known(error_code))
        if vote.epoch > self.epoch:
            self._unattach(vote.epoch, now_ms)
        if not self._is_me(vote.voter):
            return VoteResponse(self._known(error_codes.INVALID_VOTER_KEY))
        granted = voting.would_grant(self.role, vote, self.log.acknowledged_end)
        if granted and not vote.pre_vote:
            election = self.role.election._replace(
                voted_id=vote.replica.id, voted_directory_id=vote.replica.directory_id
            )
            self._save(election)
            self._leave(Unattached(election, self._election_deadline(now_ms)))
        return VoteResponse(self._known(), granted)

    def _begin_epoch(self, request: BeginQuorumEpoch, now_ms: float) -> Known:
        error_code = self._wrong_claim(request.epoch, request.leader_id) or self._wrong_leader(request)
        if error_code != error_codes.NONE:
            return self._known(error_code)
        self._note_leader(request.epoch, request.leader_id, now_ms)
        return self._known(error_codes.NONE if self._is_me(request.voter) else error_codes.INVALID_VOTER_KEY)

    def _end_epoch(self, request: EndQuorumEpoch, now_ms: float) -> Known:
        error_code = self._wrong_claim(request.epoch, request.leader_id) or self._wrong_leader(request)
        if error_code != error_codes.NONE:
            return self._known(error_code)
        self._note_leader(request.epoch, request.leader_id, now_ms)
        role = self.role
        if isinstance(role, Follower) and role.election.leader_id == request.leader_id and self.is_voter:
            role.has_fetched, role.is_abandoned = False, True  # who asks for a vote may have it
            role.deadline_ms = now_ms + self._turn_ms(request.preferred_candidates)
        return self._known()

    def _wrong_claim(self, epoch: int, node_id: int) -> int:
        """The error of a request by a node that claims to lead an epoch or to stand in one; NONE if there is none."""
        if epoch < self.epoch:
            return error_codes.FENCED_LEADER_EPOCH
        return error_codes.INVALID_REQUEST if node_id < 0 or epoch > NEWEST_EPOCH else error_codes.NONE

    def _wrong_leader(self, request: BeginQuorumEpoch | EndQuorumEpoch) -> int:
        """Refuse a second leader of an epoch. This is no reason to stop, because any client could have sent the
        request."""
        known = self.leader_id
        is_second = request.epoch == self.epoch and known not in (NO_NODE, request.leader_id)
        return error_codes.INVALID_REQUEST if is_second else error_codes.NONE

    def _turn_ms(self, candidates: Sequence[ReplicaKey]) -> float:
        """The delay before this node stands for election. The first candidate stands at once, each later one when those
        before it seem to have failed."""
        ids = [candidate.id for candidate in candidates]
        if self.local.id not in ids:
            timeout_ms = self.timing.election_timeout_ms
            return timeout_ms // 2 + self._draw(timeout_ms)
        place = ids.index(self.local.id)
        most_ms = self.timing.election_backoff_max_ms
        return min(most_ms, (most_ms >> len(ids) - 1) << place) if place else 0

    def _wrong_epoch(self, epoch: int) -> int:
        """The error of a replica that takes this node for the leader of an epoch; NONE if it is right."""
        if epoch < self.epoch:
            return error_codes.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return error_codes.UNKNOWN_LEADER_EPOCH
        return error_codes.NONE if self.is_leader else error_codes.NOT_LEADER_OR_FOLLOWER

    def _fetch(self, ticket: Any, fetch: Fetch, now_ms: float) -> None:
        leader, error_code = self.role, self._wrong_epoch(fetch.epoch)
        if not isinstance(leader, Leader) or error_code != error_codes.NONE:
            self._talks.answer(ticket, FetchResponse(self._known(error_code)))
            return
        high_watermark = NO_NODE if leader.high_watermark is None else leader.high_watermark
        if self.log.needs_snapshot(fetch.offset, fetch.last_fetched_epoch):
            self._talks.answer(ticket, FetchResponse(self._known(), high_watermark, snapshot=self.log.snapshot))
            return
        diverging = self.log.diverging(fetch.offset, fetch.last_fetched_epoch)
        if diverging is not None:
            self._talks.answer(ticket, FetchResponse(self._known(), high_watermark, diverging))
            return
        leading.note_fetch(leader, self.history.voters, fetch, self.next_offset, now_ms, self._wall_ms)
        self._heard(leader, fetch.replica.id, now_ms)
        parked = leading.ParkedFetch(ticket, fetch, now_ms + fetch.max_wait_ms)
        self._parked.append(parked)
        self._advance(leader, now_ms)
        if self._parked and self._parked[-1] is parked and self._is_answered(parked, leader, now_ms):
            self._parked.pop()  # the others were asked when something last happened

    def _fetch_snapshot(self, ticket: Any, fetch: FetchSnapshot, now_ms: float) -> None:
        leader, error_code = self.role, self._wrong_epoch(fetch.epoch)
        if not isinstance(leader, Leader) or error_code != error_codes.NONE:
            self._talks.answer(ticket, FetchSnapshotResponse(self._known(error_code), fetch.snapshot))
            return
        leading.note_life(leader, self.history.voters, fetch.replica, now_ms)
        self._heard(leader, fetch.replica.id, now_ms)
        self._talks.answer(ticket, FetchSnapshotResponse(self._known(), fetch.snapshot, fetch.position), fetch)

    def _change_voters(self, ticket: Any, request: voter_changes.VoterChange, now_ms: float) -> None:
        leader = self.role
        error_code = self._wrong_epoch(request.epoch if isinstance(request, UpdateVoter) else self.epoch)
        if not isinstance(leader, Leader) or error_code != error_codes.NONE:
            self._talks.answer(ticket, VoterResponse(self._known(error_code)))
            return
        voters = voter_changes.changed(leader, self.history, request, now_ms)
        if isinstance(request, UpdateVoter) and voters is self.history.voters and self.history.kraft_version == 0:
            voters = self._note_update(leader, request)
        if isinstance(voters, voter_changes.VotersRefusal):
            self._talks.answer(ticket, VoterResponse(self._known(voters.error_code), voters.message))
            return
        if voters is not self.history.voters:
            offset = self.next_offset
            self.history.add_voters(offset, voters)
            self.log.append(control_batch([kraft_voters(voters)], offset, self.epoch, self._wall_ms))
            due_ms = now_ms + self.timing.fetch_timeout_ms / 2
            leader.announce_ms = {each: leader.announce_ms.get(each, due_ms) for each in self._others}
        if isinstance(request, UpdateVoter) or (isinstance(request, AddVoter) and not request.ack_when_committed):
            self._talks.answer(ticket, VoterResponse(self._known()))
        else:
            leader.change = PendingChange(ticket, self.next_offset, now_ms + request.timeout_ms)
        self._advance(leader, now_ms)

    def _note_update(self, leader: Leader, request: UpdateVoter) -> Voters | voter_changes.VotersRefusal:
        known = version_upgrade.with_update(leader.known_voters, request.voter)
        if isinstance(known, voter_changes.VotersRefusal):
            return known
        leader.known_voters = known
        return self.history.voters

    def _settle_change(self, leader: Leader, now_ms: float) -> None:
        """Answer the request for a change of the voters once the change is committed, or its time is up."""
        change, high_watermark = leader.change, leader.high_watermark
        if change is None:
            return
        if high_watermark is not None and high_watermark >= change.next_offset:
            leader.change = None
            self._talks.answer(change.ticket, VoterResponse(self._known()))
        elif now_ms >= change.deadline_ms:
            leader.change = None
            self._talks.answer(change.ticket, VoterResponse(self._known(error_codes.REQUEST_TIMED_OUT)))

    def _is_voted_out(self, leader: Leader) -> bool:
        """Whether this leader is no longer a voter, and that is committed."""
        offset, high_watermark = self.history.voters_offset, leader.high_watermark
        return not self.is_voter and offset is not None and high_watermark is not None and offset < high_watermark

    def _heard(self, leader: Leader, replica_id: int, now_ms: float) -> None:
        """A replica that fetches knows the leader: postpone the next announcement to it."""
        if replica_id in leader.announce_ms:
            leader.announce_ms[replica_id] = now_ms + self.timing.fetch_timeout_ms / 2

    def _advance(self, leader: Leader, now_ms: float) -> None:
        """Commit the records that a majority has, and answer the fetches that waited for news."""
        committed, known = leading.committed(leader, self.local.id, self.history.voters), leader.high_watermark
        if committed is not None:
            leader.high_watermark = committed
            self.high_watermark = max(self.high_watermark or 0, committed)
            if self.leaders_high_watermark is None:
                self.leaders_high_watermark = committed
        if leader.high_watermark != known:
            self._wake_parked(leader, now_ms)

    def _wake_parked(self, leader: Leader, now_ms: float = 0) -> None:
        if self._parked:
            self._parked = [parked for parked in self._parked if not self._is_answered(parked, leader, now_ms)]

    def _is_answered(self, parked: leading.ParkedFetch, leader: Leader, now_ms: float) -> bool:
        """Answer a fetch if there is news for it or its time is up."""
        high_watermark = -1 if leader.high_watermark is None else leader.high_watermark
        if not parked.has_news(self.next_offset, high_watermark) and now_ms < parked.deadline_ms:
            return False
        self._talks.answer(parked.ticket, FetchResponse(self._known(), high_watermark), parked.fetch.offset)
        return True
