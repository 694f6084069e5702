"""One replica of the metadata log: elections, replication, the high watermark (Kafka's KafkaRaftClient).

Messages of the disk, of other nodes and of the clock go in by :meth:`Quorum.step`; :meth:`Quorum.ready` hands out what
to write and which messages to send. A vote is sent once ``quorum-state`` is synced. A follower sends its next Fetch,
which acknowledges records, once its log is synced.

Invariants: an epoch is led by one node at most; the first batch of an epoch is its LEADER_CHANGE; the high watermark
never goes back, and covers a record of the leader's own epoch before anything else; nothing below it is ever cut.
"""

from collections.abc import Callable, Sequence

from kpybroker.machines.raft import leading, version_upgrade
from kpybroker.machines.raft.answering import Answering
from kpybroker.machines.raft.control_records import (
    control_batch,
    kraft_version,
    kraft_voters,
    leader_change,
    read_control_batch,
)
from kpybroker.machines.raft.errors import NotLeader, QuorumBroken, RecordsTooLarge
from kpybroker.machines.raft.events import (
    Answered,
    Asked,
    ElectionPersisted,
    LogSynced,
    LogTruncated,
    Message,
    Ready,
    SnapshotBroken,
    SnapshotInstalled,
    SnapshotPart,
    SnapshotWritten,
    Unanswered,
)
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    ReplicaKey,
    Request,
    Response,
    UpdateVoter,
    Vote,
    VoteResponse,
    VoterResponse,
)
from kpybroker.machines.raft.roles import (
    NEVER,
    NO_NODE,
    Candidate,
    ElectionState,
    Follower,
    HeardLeader,
    Leader,
    Prospective,
    Resigned,
    SnapshotProgress,
    Unattached,
)
from kpybroker.machines.raft.timing import DEFAULT_TIMING, Timing
from kpybroker.machines.raft.voters import BOOTSTRAP_OFFSET, Voter, VoterHistory, voter_set
from kpywire import error_codes
from kpywire.batch import check_crc, parse_header
from kpywire.record import encode_record, plain_batch_of

MAX_BATCH_BYTES = 8 << 20
_RECORD_OVERHEAD_BYTES = 24
SNAPSHOT_ERRORS = frozenset((error_codes.SNAPSHOT_NOT_FOUND, error_codes.POSITION_OUT_OF_RANGE))


class Quorum(Answering):
    """This node's part of the quorum."""

    def __init__(  # noqa: PLR0913
        self,
        local: Voter,
        history: VoterHistory,
        election: ElectionState,
        log: LogView,
        *,
        timing: Timing = DEFAULT_TIMING,
        draw: Callable[[int], int] = lambda below: below // 2,
        bootstrap: Sequence[int] = (),
        may_vote: bool = True,
    ) -> None:
        """``history``, ``election`` and ``log`` are the contents of the disk. ``draw`` returns a random number below
        its argument: if all nodes drew the same numbers, two of them would stand for election at the same time for
        ever. ``bootstrap`` are ids, below -1, that stand for places where a node may know the leader. Without
        ``may_vote`` this node is an observer whatever the voters are."""
        super().__init__(local, history, election, log, timing, draw)
        self._may_vote = may_vote
        self._bootstrap = list(bootstrap)
        self._snapshot_parts: list[SnapshotPart] = []
        self._settling: OffsetAndEpoch | None = None
        """A complete snapshot of the leader: only the disk is awaited, whatever role this node takes meanwhile."""

    # In and out.

    def start(self, now_ms: float = 0) -> None:
        """Begin: the only voter stands for election at once, others listen for a leader first."""
        election = self.role.election
        if self.is_only_voter:
            self._stand(now_ms)
        elif election.leader_id == self.local.id and self.is_voter:
            self.role = Resigned(election, self._election_deadline(now_ms))
        elif election.leader_id == self.local.id:
            self.role = Unattached(election._replace(leader_id=NO_NODE))
        elif election.leader_id != NO_NODE:
            self.role = Follower(election, now_ms + self.timing.fetch_timeout_ms)
        else:
            self.role = Unattached(election, self._election_deadline(now_ms))
        self._drive(now_ms)

    def step(self, message: Message, now_ms: float, wall_ms: int | None = None) -> None:
        """Process one message. ``now_ms`` is of a clock that never goes back; ``wall_ms`` goes into records.

        Raises QuorumBroken.
        """
        self._wall_ms = int(now_ms) if wall_ms is None else wall_ms
        match message:
            case ElectionPersisted():
                self._election_persisted(message.election, now_ms)
            case LogSynced():
                self._log_synced(message.next_offset, now_ms)
            case LogTruncated():
                self.log.truncated()
            case SnapshotWritten():
                self.log.begins_at(message.snapshot, message.start_offset)
            case SnapshotInstalled() | SnapshotBroken():
                self._snapshot_settled(message, now_ms)
            case Asked():
                self._asked(message.ticket, message.request, now_ms)
            case Answered():
                self._answered(message.node_id, message.request, message.response, now_ms)
            case Unanswered():
                self._unanswered(message, now_ms)
        self._drive(now_ms)

    def append(self, records: Sequence[bytes], timestamp_ms: int) -> tuple[int, int]:
        """Append records at the end of the log as one batch. Return the offset of the first one and the offset after
        the last.

        Raises NotLeader, or RecordsTooLarge; then nothing was appended.
        """
        if not isinstance(self.role, Leader):
            raise NotLeader
        if sum(map(len, records)) + _RECORD_OVERHEAD_BYTES * len(records) > MAX_BATCH_BYTES:
            raise RecordsTooLarge
        section = b"".join([encode_record(delta, 0, None, record) for delta, record in enumerate(records)])
        return self.append_section(section, len(records), timestamp_ms)

    def append_section(self, section: bytes, count: int, timestamp_ms: int) -> tuple[int, int]:
        """Like `append`, for records that are already encoded as the section of a batch."""
        if not isinstance(self.role, Leader):
            raise NotLeader
        if len(section) > MAX_BATCH_BYTES:
            raise RecordsTooLarge
        first_offset = self.next_offset
        self.log.append(plain_batch_of(section, count, first_offset, self.epoch, timestamp_ms))
        self._wake_parked(self.role)
        return first_offset, self.next_offset

    def upgrade_kraft_version(self, level: int, timestamp_ms: int, *, validate_only: bool) -> None:
        """Write ``kraft.version`` and the voters into the log. Raises NotLeader or CannotUpgrade."""
        role = self.role
        if not isinstance(role, Leader):
            raise NotLeader
        voters = version_upgrade.upgraded(self.history, role.known_voters, level)
        if voters is None or validate_only:
            return
        offset = self.next_offset
        self.history.add_kraft_version(offset, level)
        self.history.add_voters(offset + 1, voters)
        self.log.append(control_batch([kraft_version(level), kraft_voters(voters)], offset, self.epoch, timestamp_ms))
        self._wake_parked(role)

    def ready(self) -> Ready | None:
        """The work to do now, each item handed out once; None if there is nothing.

        No message is handed out while an election is being saved, because it may depend on it.
        """
        election, parts = self._unsaved_election, self._snapshot_parts
        may_speak = self._talks.has_words and election is None and self._saving is None
        if not (may_speak or self.log.has_work or election is not None or parts):
            return None
        if election is not None:
            self._saving = election
        self._unsaved_election, self._snapshot_parts = None, []
        work = self.log.take()
        outgoing = self._talks.take() if may_speak else ()
        return Ready(election, work.batches, work.truncate_to, outgoing, work.start_at, parts or ())

    def resign(self) -> None:
        """Stop leading for good, because the log cannot be written or the node stops. The other nodes are informed.

        Records that were appended and not handed out are dropped. On a node that does not lead this has no effect.
        """
        role = self.role
        if isinstance(role, Leader):
            self._cut(self.log.taken_offset)
            self._tell_resigned(role)
            self._leave(Resigned(role.election))

    @property
    def deadline_ms(self) -> float:
        """The time of the next :class:`Tick`."""
        deadlines = [*self._talks.deadlines_ms, *[parked.deadline_ms for parked in self._parked]]
        if self._is_saving:
            return min(deadlines, default=NEVER)
        if isinstance(self.role, Leader):
            if not self.is_only_voter:
                deadlines += [self._resign_ms(self.role), *self.role.announce_ms.values()]
            if self.role.change is not None:
                deadlines.append(self.role.change.deadline_ms)
        else:
            deadlines.append(self.role.deadline_ms)
        return min(deadlines, default=NEVER)

    # Leading.

    def _election_persisted(self, election: ElectionState, now_ms: float) -> None:
        if self._saving == election:
            self._saving = None
        role = self.role
        if isinstance(role, Follower) and not (role.has_fetched or role.is_abandoned or self._is_saving):
            role.deadline_ms = now_ms + self.timing.fetch_timeout_ms  # until now it could not ask
        if isinstance(role, Candidate) and role.election == election:
            if role.deadline_ms != NEVER:
                role.deadline_ms = self._election_deadline(now_ms)
            role.votes.note(self.local.id, granted=True)
            if role.votes.is_won:
                self._lead(role, now_ms)

    def _lead(self, candidate: Candidate, now_ms: float) -> None:
        election = candidate.election._replace(leader_id=self.local.id)
        self._save(election)
        leader = Leader(election, self.next_offset, candidate.granted, now_ms)
        leader.announce_ms = dict.fromkeys(self._others, now_ms)
        leader.known_voters = version_upgrade.known_at_first(self.history, self.local)
        self._leave(leader)
        records = [leader_change(self.local.id, self.history.voters, candidate.granted)]
        offset = self.next_offset
        if self.history.kraft_version >= 1 and self._voters_need_writing():
            voters = voter_set([*self.history.voters.values(), self.local])
            records += [kraft_version(self.history.kraft_version), kraft_voters(voters)]
            self.history.add_kraft_version(offset + 1, self.history.kraft_version)
            self.history.add_voters(offset + 2, voters)
        self.log.append(control_batch(records, offset, self.epoch, self._wall_ms))

    def _voters_need_writing(self) -> bool:
        """Whether the leader has to write the voters: ``format`` put them in a snapshot, and the first leader writes
        them into the log; a later leader does so if it has moved."""
        return self.history.voters_offset == BOOTSTRAP_OFFSET or self._has_moved

    def _tell_resigned(self, leader: Leader) -> None:
        others = [self.history.voters[voter_id] for voter_id in self._others]
        best_first = sorted(others, key=lambda voter: leading.progress_of(leader, voter).end_offset, reverse=True)
        candidates = tuple([ReplicaKey(voter.id, voter.directory_id) for voter in best_first])
        for candidate in candidates:
            self._talks.tell(candidate.id, EndQuorumEpoch(self.epoch, self.local.id, candidates))

    # The log.

    def _log_synced(self, next_offset: int, now_ms: float) -> None:
        role, was_durable = self.role, self.log.is_durable
        if not self.log.synced(next_offset):
            return
        if isinstance(role, Leader):
            role.synced_offset = max(role.synced_offset, self.log.synced_offset)
            self._advance(role, now_ms)
        elif isinstance(role, Follower) and self.log.is_durable and not was_durable:
            self._listen_again(role, now_ms)

    def _cut(self, offset: int) -> None:
        if self.high_watermark is not None and offset < self.high_watermark:
            raise QuorumBroken(f"the leader cuts the log at {offset}, but it is committed up to {self.high_watermark}")
        self.log.truncate_to(offset)
        self.history.truncate_to(offset)

    def _snapshot_settled(self, message: SnapshotInstalled | SnapshotBroken, now_ms: float) -> None:
        """The contents of a snapshot are committed: it replaces a shorter log, whatever this node's role is now."""
        role = self.role
        if self._settling == message.snapshot:
            self._settling = None
        if isinstance(role, Follower) and role.snapshot is not None and role.snapshot.snapshot == message.snapshot:
            role.snapshot = None
            self._listen_again(role, now_ms)
            if isinstance(message, SnapshotBroken):
                self._back_off(role.election.leader_id, now_ms)
        if isinstance(message, SnapshotInstalled) and self.log.lacks(message.snapshot):
            if message.snapshot.offset < (self.high_watermark or 0):
                raise QuorumBroken(f"the leader's snapshot ends at {message.snapshot.offset}, and more is committed")
            self.history.replace_by(message.history)
            self.log.replace_by(message.snapshot)
            self.high_watermark = max(self.high_watermark or 0, message.snapshot.offset)

    # What others answered.

    def _answered(self, node_id: int, request: Request, response: Response, now_ms: float) -> None:
        is_awaited = self._talks.settle(node_id, request)
        known, role = response.known, self.role
        heard = self.heard_leader
        if node_id == (role.election.leader_id if isinstance(role, Follower) or heard is None else heard.node_id):
            self.heard_leader = HeardLeader(node_id, now_ms)
        self._note_leader(known.epoch, known.leader_id, now_ms)
        if self.role is not role or not is_awaited:
            return
        if known.error_code != error_codes.NONE:
            if isinstance(request, FetchSnapshot) and known.error_code in SNAPSHOT_ERRORS:
                self._forget_snapshot()
            self._back_off(node_id, now_ms)
            if known.error_code == error_codes.NOT_LEADER_OR_FOLLOWER and known.epoch == self.epoch:
                self._leader_is_gone(node_id, now_ms)  # who led this epoch says that it does so no more
        elif isinstance(response, VoteResponse):
            self._vote_answered(node_id, now_ms, granted=response.granted)
        elif isinstance(response, FetchResponse):
            self._fetched(response, now_ms)
        elif isinstance(response, FetchSnapshotResponse):
            self._snapshot_fetched(response, now_ms)
        elif isinstance(response, VoterResponse) and isinstance(role, Follower):
            role.has_reported = True
        if known.error_code == error_codes.NONE:
            self._talks.succeeded(node_id)

    def _back_off(self, node_id: int, now_ms: float) -> None:
        self._talks.back_off(node_id, now_ms, self.timing.retry_backoff_ms)

    def _unanswered(self, message: Unanswered, now_ms: float) -> None:
        if not self._talks.settle(message.node_id, message.request):
            return
        self._back_off(message.node_id, now_ms)
        role = self.role
        if message.is_gone and isinstance(role, Prospective | Candidate):
            role.votes.gone.add(message.node_id)
            self._note_votes(role, now_ms)
        elif message.is_gone:
            self._leader_is_gone(message.node_id, now_ms)

    def _leader_is_gone(self, node_id: int, now_ms: float) -> None:
        """The leader's process has ended, so there is no need to wait for it to time out. Voters that still hear a
        leader would refuse the vote."""
        role = self.role
        if isinstance(role, Follower) and role.election.leader_id == node_id:
            role.has_fetched, role.is_abandoned = False, True
            role.deadline_ms = min(role.deadline_ms, now_ms + self._draw(self.timing.gone_backoff_max_ms))

    def _vote_answered(self, node_id: int, now_ms: float, *, granted: bool) -> None:
        role = self.role
        if not isinstance(role, Prospective | Candidate):
            return
        role.votes.gone.discard(node_id)
        role.votes.note(node_id, granted=granted)
        self._note_votes(role, now_ms)

    def _note_votes(self, role: Prospective | Candidate, now_ms: float) -> None:
        if role.votes.is_won:
            if isinstance(role, Candidate):
                self._lead(role, now_ms)
            else:
                self._stand(now_ms)
        elif role.votes.is_lost and isinstance(role, Candidate) and not role.is_lost:
            role.is_lost = True  # the refusing voter may stand as well: the wait before the next attempt is random
            role.deadline_ms = min(role.deadline_ms, now_ms + self._backoff())

    def _fetched(self, response: FetchResponse, now_ms: float) -> None:
        role = self.role
        if not isinstance(role, Follower):
            return
        role.has_fetched = True
        role.deadline_ms = now_ms + self.timing.fetch_timeout_ms
        if response.diverging is not None:
            self._cut(self.log.cut_for(response.diverging))
        elif response.snapshot is not None:
            if self.log.lacks(response.snapshot):
                role.snapshot = SnapshotProgress(response.snapshot)
            else:
                self._back_off(role.election.leader_id, now_ms)
        else:
            if not all(self._replicate(batch) for batch in response.batches):
                self._back_off(role.election.leader_id, now_ms)
                return
            if response.high_watermark >= 0:
                committed = min(response.high_watermark, self.next_offset)
                self.high_watermark = max(self.high_watermark or 0, committed)
                if self.leaders_high_watermark is None:
                    self.leaders_high_watermark = response.high_watermark

    def _snapshot_fetched(self, response: FetchSnapshotResponse, now_ms: float) -> None:
        role = self.role
        if not isinstance(role, Follower) or role.snapshot is None:
            return
        role.deadline_ms = now_ms + self.timing.fetch_timeout_ms
        progress, size = role.snapshot, len(response.data)
        is_expected = (response.snapshot, response.position) == (progress.snapshot, progress.position)
        if not is_expected or size == 0:
            self._forget_snapshot()
            self._back_off(role.election.leader_id, now_ms)
            return
        progress.position += size
        is_whole = progress.position >= response.size_bytes
        if is_whole:
            self._settling = response.snapshot
        self._snapshot_parts.append(SnapshotPart(response.snapshot, response.position, response.data, is_whole))

    def _forget_snapshot(self) -> None:
        """The leader no longer has the snapshot: the answer to the next fetch names the one it has."""
        if isinstance(self.role, Follower):
            self.role.snapshot = None

    def _replicate(self, batch: bytes) -> bool:
        """Append one batch of the leader to this log. Return False if it is damaged or does not continue the log."""
        header = parse_header(batch)
        if header.base_offset != self.next_offset or not check_crc(batch, header):
            return False
        if header.is_control:
            read_control_batch(header, batch, self.history)
        self.log.append(batch)
        return True

    # What is due.

    def _resign_ms(self, leader: Leader) -> float:
        majority_ms = leading.majority_ms(leader, self.local.id, self.history.voters)
        return majority_ms + self.timing.fetch_timeout_ms * 1.5

    def _drive(self, now_ms: float) -> None:
        """Do whatever time or the last message has made due."""
        self._talks.forgive(now_ms)
        match self.role:
            case Leader() as role:
                self._drive_leader(role, now_ms)
            case _ if self._is_saving:
                return  # a slow disk is nobody's silence
            case Follower() as role if self._awaits_disk:
                if now_ms >= role.deadline_ms:
                    role.has_fetched, role.deadline_ms = False, NEVER  # the next candidate may have the vote
            case Follower() as role if role.deadline_ms == NEVER:
                self._listen_again(role, now_ms)
            case Resigned() as role:
                if now_ms >= role.deadline_ms:
                    self._unattach(self.epoch + 1, now_ms)
                elif not self.is_voter:
                    self._leave(Unattached(role.election._replace(leader_id=NO_NODE)))
            case Unattached() | Follower() as role if now_ms >= role.deadline_ms:
                if self.may_stand:
                    self._ask_before_standing(now_ms)
                else:
                    election = role.election._replace(leader_id=NO_NODE)
                    self._leave(Unattached(election, self._election_deadline(now_ms)))
            case Prospective() as role if now_ms >= role.deadline_ms or role.votes.is_lost:
                self._give_up(role, now_ms)
            case Candidate() as role if now_ms >= role.deadline_ms:
                self._ask_before_standing(now_ms)
        match self.role:
            case Prospective() | Candidate() as role:
                self._ask_for_votes(role)
            case Follower() as role:
                self._ask_leader(role, now_ms)
            case Unattached() if not self.is_voter:
                self._ask_anybody()

    @property
    def _awaits_disk(self) -> bool:
        """Whether a follower must wait for its own disk before it can ask its leader for anything."""
        return self._settling is not None or not self.log.is_durable

    def _listen_again(self, role: Follower, now_ms: float) -> None:
        """The disk is ready: the leader can be asked again, unless it is known to have gone."""
        if not role.is_abandoned:
            role.deadline_ms = now_ms + self.timing.fetch_timeout_ms
        elif role.deadline_ms == NEVER:
            role.deadline_ms = now_ms + self._draw(self.timing.gone_backoff_max_ms)

    def _drive_leader(self, leader: Leader, now_ms: float) -> None:
        self._wake_parked(leader, now_ms)
        self._settle_change(leader, now_ms)
        if self.is_only_voter:
            return
        if self._is_voted_out(leader):
            self._tell_resigned(leader)
            self._leave(Unattached(leader.election._replace(leader_id=NO_NODE)))
            return
        if now_ms >= self._resign_ms(leader) and not self._is_saving:
            self._tell_resigned(leader)
            self._leave(Resigned(leader.election, self._election_deadline(now_ms)))
            return
        for voter_id, due_ms in leader.announce_ms.items():
            if now_ms >= due_ms and voter_id in self.history.voters:
                voter = self.history.voters[voter_id]
                request = BeginQuorumEpoch(self.epoch, self.local.id, ReplicaKey(voter_id, voter.directory_id))
                self._talks.ask(voter_id, request)
                leader.announce_ms[voter_id] = now_ms + self.timing.fetch_timeout_ms / 2

    def _ask_for_votes(self, role: Prospective | Candidate) -> None:
        for voter_id in role.votes.missing:
            if voter_id != self.local.id and self._talks.is_free(voter_id):
                voter = ReplicaKey(voter_id, self.history.voters[voter_id].directory_id)
                self._talks.ask(voter_id, Vote(self.epoch, self.me, self.log.end, isinstance(role, Prospective), voter))

    def _ask_leader(self, role: Follower, now_ms: float) -> None:
        leader_id, progress = role.election.leader_id, role.snapshot
        if not self._talks.is_free(leader_id):
            return
        if self._has_news(role) and role.has_fetched and now_ms >= role.update_ms:
            role.update_ms = now_ms + self.timing.fetch_timeout_ms
            self._talks.ask(leader_id, UpdateVoter(self.epoch, self.local))
        elif progress is None:
            if self.log.is_durable:
                self._talks.ask(leader_id, self._next_fetch())
        elif self._settling is None:
            snapshot, most_bytes = OffsetAndEpoch(*progress.snapshot), self.timing.fetch_snapshot_max_bytes
            request = FetchSnapshot(self.epoch, self.me, snapshot, progress.position, most_bytes)
            self._talks.ask(leader_id, request)

    def _has_news(self, role: Follower) -> bool:
        """Whether the leader should be informed about this voter: that it moved, or, for a configured voter, anything
        at all."""
        return self._has_moved or (self.history.kraft_version == 0 and self.is_voter and not role.has_reported)

    @property
    def _has_moved(self) -> bool:
        """Whether the voters' record of this node differs from its own data."""
        return self.history.kraft_version >= 1 and self.is_voter and self.history.voters[self.local.id] != self.local

    def _ask_anybody(self) -> None:
        """Find the leader, as an observer, by asking the voters and the bootstrap servers in turn."""
        node_id = self._talks.next_free([*self._others, *self._bootstrap])
        if node_id is not None and self.log.is_durable:
            self._talks.ask(node_id, self._next_fetch())

    def _next_fetch(self) -> Fetch:
        high_watermark = -1 if self.high_watermark is None else self.high_watermark
        end, timing = self.log.end, self.timing
        return Fetch(
            self.epoch, self.me, end.offset, end.epoch, high_watermark, timing.fetch_max_wait_ms, timing.fetch_max_bytes
        )
