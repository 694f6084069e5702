"""Reading for the followers of partitions, up to the end of the log (Kafka's ``Partition.fetchRecords``).

A fetch reports how far a follower has come, and that is noted before anything is read for it. It moves the high
watermark, and a follower that has caught up is proposed for the in-sync set. A follower's position is unchanged in
partitions that a session's fetch does not name; if it is caught up there, it stays so. One clock for the whole session
records that (`kpybroker.machines.partition.in_sync.FetchClock`).

Of a tiered topic (KIP-405) a follower gets what is on this disk. Where it asks for an offset that only the store has,
the answer is OFFSET_MOVED_TO_TIERED_STORAGE, and its position is not noted.

A parked fetch is answered at the first append. While ``leader.replication.throttled.rate`` is used up, followers that
are not in sync get no records of the partitions that their topics' configs list for throttling (KIP-73).
"""

from collections.abc import Iterable
from typing import Final

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import FollowerFetch
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.session import CachedPartition, FetchSession, WatchedReplica
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.reading.answer import AnswerBudget, Policy, copied
from kpybroker.runtime.calls.call import Call
from kpystorage.errors import DiskFailure, StorageError
from kpywire import error_codes
from kpywire.fetch import REPLICA_STATE_FROM
from kpywire.messages.fetch import EpochEndOffset, FetchRequest, PartitionData

UNKNOWN_EPOCH: Final = -1
NO_OFFSET: Final = -1


class ReplicaRead(Policy):
    """A follower's read."""

    __slots__ = ("_broker", "_counters", "_max_wait_ms", "_noted_ms", "_replica_epoch", "_replica_id", "_session")

    def __init__(
        self, broker: Context, request: FetchRequest, session: FetchSession, replica_id: int, call: Call
    ) -> None:
        self.is_replica = True
        self.store_wait_ms = 0
        self._broker = broker
        self._session = session
        self._counters = call.counters
        self._replica_id = replica_id
        self._max_wait_ms = request.max_wait_ms
        with_epoch = call.api_version >= REPLICA_STATE_FROM
        self._replica_epoch = request.replica_state.replica_epoch if with_epoch else UNKNOWN_EPOCH
        self._noted_ms: float | None = None
        """The time of the fetch: when its first partitions were noted."""

    # What the fetch tells

    def note(self, entries: Iterable[CachedPartition]) -> None:
        """Note where the follower is in these partitions. Of a request for many, some are noted at a time."""
        now_ms = self._noted_ms
        if now_ms is None:
            now_ms = self._noted_ms = self._broker.scheduler.monotonic_ms()
            self._broker.replicas.follower_fetches[self._replica_id] = FollowerFetch(now_ms, self._max_wait_ms)
        for entry in entries:
            self._note(entry, now_ms)
        if self._session.clock is not None:
            self._session.clock.ms = now_ms

    def _note(self, entry: CachedPartition, now_ms: float) -> None:
        try:
            replica = entry.replica
            if replica is None or replica.gone:
                replica = self._broker.replicas.find_for(entry)
            assert isinstance(replica, Replica)
            self._note_in(replica, _leader_for(replica, entry), entry, now_ms)
        except DiskFailure as failure:
            entry.rest()
            self._broker.replicas.directory_failed(failure)
        except (KafkaError, StorageError):
            entry.rest()  # why is said when it is read

    def _note_in(self, replica: Replica, leader: PartitionLeader, entry: CachedPartition, now_ms: float) -> None:
        knows_epoch = entry.leader_epoch >= 0
        follower = leader.check_follower(self._replica_id, self._replica_epoch, knows_epoch=knows_epoch)
        if (
            entry.last_fetched_epoch >= 0
            and leader.divergence(entry.last_fetched_epoch, entry.fetch_offset) is not None
        ):
            entry.rest()
            return
        if not leader.log.local_log_start_offset <= entry.fetch_offset <= leader.log.end.offset:
            entry.rest()
            return
        entry.follower = follower
        log_start_before = follower.log_start_offset
        is_committed, change = leader.note_fetch(
            follower, self._replica_epoch, entry.fetch_offset, entry.log_start_offset, now_ms, self._session.clock
        )
        if change is not None:
            self._broker.in_sync.propose(replica, leader, change)
        if is_committed:
            replica.committed()
        elif log_start_before != entry.log_start_offset:
            replica.check_waits()

    # What it gets

    def read(self, entry: CachedPartition, replica: WatchedReplica, budget: AnswerBudget) -> PartitionData:
        """Read one partition. A changed log start is answered at once, since deletions wait for all replicas.

        Raises KafkaError, StorageError.
        """
        assert isinstance(replica, Replica)
        leader = _leader_for(replica, entry)
        leader.check_follower(self._replica_id, self._replica_epoch, knows_epoch=entry.leader_epoch >= 0)
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
            diverging = leader.divergence(entry.last_fetched_epoch, entry.fetch_offset)
            if diverging is not None:
                answer.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
                return answer
        if log.config.is_tiered and log.log_start_offset <= entry.fetch_offset < log.local_log_start_offset:
            answer.error_code = error_codes.OFFSET_MOVED_TO_TIERED_STORAGE
            answer.last_stable_offset = NO_OFFSET
            return answer
        if entry.sent_log_start_offset >= 0 and entry.sent_log_start_offset != log.log_start_offset:
            budget.is_urgent = True
        is_in_sync = self._replica_id in leader.isr
        # A replica out of sync is checked again with every fetch: whether it may join is not up to this log alone.
        entry.held_back = not is_in_sync
        if not is_in_sync and self._has_to_wait(replica):
            return answer
        records = None
        max_bytes = min(entry.max_bytes, budget.left_bytes)
        if max_bytes > 0 or budget.is_untouched:
            records = leader.read(entry.fetch_offset, max_bytes, log.end, min_one_batch=budget.is_untouched)
        elif not log.log_start_offset <= entry.fetch_offset <= log.end.offset:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if records is not None:
            answer.records = copied(leader, records) if budget.copies else records
            entry.held_back = False
        elif entry.fetch_offset < log.end.offset:
            entry.held_back = True
        return answer

    def _has_to_wait(self, replica: Replica) -> bool:
        throttle = self._broker.leader_throttle
        return throttle.covers(replica) and throttle.is_used_up(self._broker.scheduler.monotonic_ms())

    def is_forbidden(self, _entry: CachedPartition) -> bool:
        """Whether the sender may not read a topic: a broker that may act for the cluster may read everything."""
        return False

    def count(self, entry: CachedPartition, answer: PartitionData) -> None:
        """Count what is answered. As in Kafka, bytes read by followers do not count as a topic's outgoing bytes."""
        replica, records = entry.replica, answer.records
        if answer.error_code != error_codes.NONE:
            self._counters.count_error(answer.error_code)
        if not isinstance(replica, Replica):
            return
        replica.topic.fetches += 1
        if answer.error_code == error_codes.UNKNOWN_SERVER_ERROR:
            replica.topic.failed_fetches += 1
        if records:
            self._broker.replicas.bytes_to_followers += len(records)
            throttle = self._broker.leader_throttle
            if throttle.covers(replica):
                throttle.count(len(records), self._broker.scheduler.monotonic_ms())


def _leader_for(replica: Replica, entry: CachedPartition) -> PartitionLeader:
    leader = replica.led()
    if entry.leader_epoch >= 0:
        leader.check_epoch(entry.leader_epoch)
    return leader
