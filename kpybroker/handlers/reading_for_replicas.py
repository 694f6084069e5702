"""Reading for the followers of partitions: to the log's end, and what their fetches tell of them (Kafka's
``Partition.fetchRecords``).

Each fetch says how far a follower has come, before anything is read for it: the high watermark moves by that, and who
has caught up is proposed for the in-sync set. A partition that a fetch of a session does not name is where it was; what
that means for those that are caught up is one clock for all of them (`kpybroker.partition.in_sync.FetchClock`).

A parked fetch leaves at the first append. While ``leader.replication.throttled.rate`` is used up, followers that are
not in sync get nothing of the partitions that their topics name (KIP-73).
"""

from collections.abc import Generator, Iterable

from kpybroker.errors import KafkaError
from kpybroker.fetch.session import Entry, Session
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.reading import STEP_ENTRIES, Reading, Room, divergence
from kpybroker.partition.leader import Leader
from kpybroker.replicas.replica import Replica
from kpybroker.server.pending import Pending
from kpystorage.errors import DiskFailure, StorageError
from kpywire import error_codes
from kpywire.fetch import REPLICA_STATE_FROM
from kpywire.messages.fetch import FetchRequest, FetchResponse, PartitionData

UNKNOWN_EPOCH = -1


class ReplicaReading(Reading):
    """One Fetch of a follower."""

    __slots__ = ("_is_urgent", "replica_epoch")

    def __init__(
        self, broker: Context, request: FetchRequest, session: Session, incremental: bool, replica_id: int, call: Call
    ) -> None:
        super().__init__(broker, request, session, incremental, replica_id, call)
        with_epoch = call.api_version >= REPLICA_STATE_FROM
        self.replica_epoch = request.replica_state.replica_epoch if with_epoch else UNKNOWN_EPOCH
        self._is_urgent = False

    # What the fetch tells

    def answer(self, entries: Iterable[Entry]) -> FetchResponse | Pending:
        """Note where the follower is, then answer."""
        now_ms = self.broker.scheduler.monotonic_ms()
        due = list(entries)
        for entry in due:
            self._note(entry, now_ms)
        self._noted(now_ms)
        return super().answer(due)

    def answer_in_steps(self, entries: Iterable[Entry]) -> Generator[None, None, FetchResponse | Pending]:
        """As `answer`, of a full request for many partitions."""
        now_ms = self.broker.scheduler.monotonic_ms()
        due = list(entries)
        for number, entry in enumerate(due):
            if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                yield
            self._note(entry, now_ms)
        self._noted(now_ms)
        return (yield from super().answer_in_steps(due))

    def _noted(self, now_ms: float) -> None:
        if self.session.clock is not None:
            self.session.clock.ms = now_ms

    def _note(self, entry: Entry, now_ms: float) -> None:
        try:
            replica = self._replica_of(entry)
            self._note_in(replica, self._leader_for(replica, entry), entry, now_ms)
        except DiskFailure as failure:
            entry.rest()
            self.broker.replicas.directory_failed(failure)
        except (KafkaError, StorageError):
            entry.rest()  # why is said when it is read

    def _note_in(self, replica: Replica, leader: Leader, entry: Entry, now_ms: float) -> None:
        knows_epoch = entry.leader_epoch >= 0
        follower = leader.check_follower(self.replica_id, self.replica_epoch, knows_epoch=knows_epoch)
        if entry.last_fetched_epoch >= 0 and divergence(leader, entry) is not None:
            entry.rest()
            return
        if not leader.log.log_start_offset <= entry.fetch_offset <= leader.log.end.offset:
            entry.rest()
            return
        entry.follower = follower
        log_start_before = follower.log_start_offset
        is_committed, change = leader.note_fetch(
            follower, self.replica_epoch, entry.fetch_offset, entry.log_start_offset, now_ms, self.session.clock
        )
        keeper = self.broker.replicas.in_sync
        if change is not None and keeper is not None:
            keeper.propose(replica, leader, change)
        if is_committed:
            replica.committed()
        elif log_start_before != entry.log_start_offset:
            replica.check_waits()

    def _replica_of(self, entry: Entry) -> Replica:
        replica = entry.replica
        if replica is None or replica.gone:
            return self._find(entry)
        assert isinstance(replica, Replica)
        return replica

    @staticmethod
    def _leader_for(replica: Replica, entry: Entry) -> Leader:
        leader = replica.led()
        if entry.leader_epoch >= 0:
            leader.check_epoch(entry.leader_epoch)
        return leader

    # What it gets

    def collect(self, entries: Iterable[Entry], room: Room | None = None) -> bool:
        """As ever; a log that starts elsewhere is told at once, since deletions wait for all replicas."""
        return super().collect(entries, room) or self._is_urgent

    def _read_partition(self, entry: Entry, left_bytes: int, *, nothing_yet: bool, copy: bool) -> PartitionData:
        entry.held_back = False
        replica = self._replica_of(entry)
        if self.session.lasts or self._parked:
            entry.watch()
        leader = self._leader_for(replica, entry)
        leader.check_follower(self.replica_id, self.replica_epoch, knows_epoch=entry.leader_epoch >= 0)
        log = leader.log
        answer = PartitionData(
            partition_index=entry.index,
            error_code=error_codes.NONE,
            high_watermark=leader.high_watermark.offset,
            last_stable_offset=leader.last_stable_offset().offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if entry.last_fetched_epoch >= 0:
            diverging = divergence(leader, entry)
            if diverging is not None:
                answer.diverging_epoch = diverging
                return answer
        if entry.sent_log_start_offset >= 0 and entry.sent_log_start_offset != log.log_start_offset:
            self._is_urgent = True
        is_in_sync = self.replica_id in leader.isr
        # Who is out of sync is looked at again with every fetch: whether it may join is not up to this log alone.
        entry.held_back = not is_in_sync
        if not is_in_sync and self._has_to_wait(replica):
            return answer
        records = None
        max_bytes = min(entry.max_bytes, left_bytes)
        if max_bytes > 0 or nothing_yet:
            records = leader.read(entry.fetch_offset, max_bytes, log.end, min_one_batch=nothing_yet)
        elif not log.log_start_offset <= entry.fetch_offset <= log.end.offset:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if records is not None:
            answer.records = records.read() if copy else records
            entry.held_back = False
        elif entry.fetch_offset < log.end.offset:
            entry.held_back = True
        return answer

    def _has_to_wait(self, replica: Replica) -> bool:
        throttle = self.broker.replicas.leader_throttle
        if throttle is None or not throttle.covers(replica):
            return False
        return throttle.is_used_up(self.broker.scheduler.monotonic_ms())

    def _count(self, entry: Entry, answer: PartitionData) -> None:
        """As Kafka: what followers read is none of a topic's bytes."""
        replica, records = entry.replica, answer.records
        if answer.error_code != error_codes.NONE:
            self.counters.count_error(answer.error_code)
        if not isinstance(replica, Replica):
            return
        replica.topic.fetches += 1
        if answer.error_code == error_codes.UNKNOWN_SERVER_ERROR:
            replica.topic.failed_fetches += 1
        if records:
            self.broker.replicas.bytes_to_followers += len(records)
            throttle = self.broker.replicas.leader_throttle
            if throttle is not None and throttle.covers(replica):
                throttle.count(len(records), self.broker.scheduler.monotonic_ms())
