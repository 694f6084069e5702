"""Reading for clients: up to the high watermark, or for ``read_committed`` up to the last stable offset.

Consumers may read from followers (KIP-392), and are sent to a better one where the broker chooses.
"""

from typing import TYPE_CHECKING, Final

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.session import NO_SESSION, CachedPartition, WatchedReplica
from kpybroker.machines.partition.role import READ_COMMITTED, Role
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.permissions import may
from kpybroker.requests.serving.preferred_replica import NO_PREFERENCE, chooser_of
from kpybroker.requests.serving.reading.answer import AnswerBudget, Policy, copied
from kpybroker.runtime.calls.call import Call
from kpystorage.errors import OffsetOutOfRange
from kpystorage.log_slice import LogSlice
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire import error_codes
from kpywire.messages.fetch import AbortedTransaction, EpochEndOffset, FetchRequest, PartitionData

if TYPE_CHECKING:
    from kpybroker.hosts.remote_log.reads import WantedRecords
    from kpybroker.hosts.remote_log.remote_log import RemoteLog

FOLLOWERS_FROM: Final = 11
"""From this version on consumers may read from followers (KIP-392)."""
SMALL_SLICE_BYTES: Final = 16 * 1024


class ClientRead(Policy):
    """A client's read."""

    __slots__ = (
        "_broker", "_call", "_choose", "_committed_only", "_counters", "_from_followers", "_is_guarded", "_is_negative",
        "_is_shut_out",
    )  # fmt: skip

    def __init__(self, broker: Context, request: FetchRequest, call: Call, *, is_shut_out: bool = False) -> None:
        """``is_shut_out``: nothing may be read, since the sender claims to be a replica and may not."""
        self.is_replica = False
        self.store_wait_ms = 0
        self._broker = broker
        self._call = call
        self._is_guarded = broker.authorizer is not None
        self._is_shut_out = is_shut_out
        self._counters = call.counters
        self._from_followers = call.api_version >= FOLLOWERS_FROM
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._is_negative = request.max_bytes < 0
        self._choose = chooser_of(broker, request, call) if request.rack_id else None

    def read(self, entry: CachedPartition, replica: WatchedReplica, budget: AnswerBudget) -> PartitionData:
        """Read one partition. Raises KafkaError, StorageError."""
        if self._is_guarded and self.is_forbidden(entry):
            raise KafkaError(error_codes.TOPIC_AUTHORIZATION_FAILED)
        role: Role = replica.held() if self._from_followers and replica.leader is None else replica.led()
        if entry.leader_epoch >= 0:
            role.check_epoch(entry.leader_epoch)
        high_watermark = role.high_watermark
        stable = role.last_stable_offset()
        answer = PartitionData(
            partition_index=entry.index,
            error_code=error_codes.NONE,
            high_watermark=high_watermark.offset,
            last_stable_offset=stable.offset,
            log_start_offset=role.log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if self._choose is not None:
            preferred = self._choose(role, entry.fetch_offset)
            if preferred != NO_PREFERENCE:
                answer.preferred_read_replica = preferred
                return answer
        if entry.last_fetched_epoch >= 0:
            diverging = role.divergence(entry.last_fetched_epoch, entry.fetch_offset)
            if diverging is not None:
                answer.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
                return answer
        end = stable if self._committed_only else high_watermark
        if entry.fetch_offset == end.offset:
            # Most partitions of a reader that has caught up.
            if self._committed_only:
                answer.aborted_transactions = []
            return answer
        if entry.max_bytes < 0 or self._is_negative:
            _refuse_negative_size(role, entry, end.offset)
        max_bytes = min(entry.max_bytes, budget.left_bytes)
        records = None
        if max_bytes > 0 or budget.is_untouched:
            try:
                records = role.read(entry.fetch_offset, max_bytes, end, min_one_batch=budget.is_untouched)
            except OffsetOutOfRange:
                if entry.fetch_offset < role.log.log_start_offset or self._broker.remote_log is None:
                    raise
                self._read_from_store(entry, role, answer, budget, self._broker.remote_log)
                return answer
        elif not role.log.log_start_offset <= entry.fetch_offset <= role.log.log_end_offset:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if records is not None:
            few = budget.copies and len(records) <= SMALL_SLICE_BYTES
            answer.records = copied(role, records) if few else records
        else:
            entry.held_back = entry.fetch_offset < end.offset
        if self._committed_only:
            answer.aborted_transactions = _aborted(role, entry.fetch_offset, records) if records else []
        return answer

    def _read_from_store(
        self, entry: CachedPartition, role: Role, answer: PartitionData, budget: AnswerBudget, remote_log: "RemoteLog"
    ) -> None:
        """Add records that only the store has; if they are not here yet, the entry is touched when they are. Raises
        KafkaError."""
        if self._committed_only:
            answer.aborted_transactions = []
        found = remote_log.read(_wanted(entry, committed_only=self._committed_only), role)
        if found is None:
            self.store_wait_ms = remote_log.fetch_wait_ms()
            return
        room = min(entry.max_bytes, budget.left_bytes)
        if room < found.first_batch_bytes and not budget.is_untouched:
            entry.held_back = True
            return
        answer.records = found.records[: max(room, found.first_batch_bytes)]
        budget.is_from_store = budget.is_urgent = True
        if self._committed_only:
            answer.aborted_transactions = [_answered(aborted) for aborted in found.aborted]

    def is_forbidden(self, entry: CachedPartition) -> bool:
        """Whether the sender may not READ the topic. An unknown topic id names none."""
        if not self._is_guarded:
            return False
        if self._is_shut_out:
            return True
        name = entry.topic
        if isinstance(name, bytes):
            known = self._broker.image.topics_by_id.get(name)
            if known is None:
                return False
            name = known.name
        return not may(self._broker, self._call, AclOperation.READ, ResourceType.TOPIC, name)

    def count(self, entry: CachedPartition, answer: PartitionData) -> None:
        """Count what is answered, and note it for the lag of readers without a session."""
        if answer.error_code != error_codes.NONE:
            self._counters.count_error(answer.error_code)
        if answer.records and entry.session.id == NO_SESSION:
            entry.sent_high_watermark = answer.high_watermark
        if entry.replica is not None:
            held = entry.replica.topic
            held.fetches += 1
            if answer.records:
                held.bytes_out += len(answer.records)
            elif answer.error_code == error_codes.UNKNOWN_SERVER_ERROR:
                held.failed_fetches += 1


def _wanted(entry: CachedPartition, *, committed_only: bool) -> "WantedRecords":
    from kpybroker.hosts.remote_log.reads import WantedRecords  # not of a plain start

    assert entry.replica is not None
    topic_id: bytes = entry.replica.topic.id
    return WantedRecords(topic_id, entry.index, entry.fetch_offset, entry.max_bytes, committed_only, entry.touch)


def _refuse_negative_size(role: Role, entry: CachedPartition, end_offset: int) -> None:
    """Refuse a negative size as Kafka does: it fails only if there are bytes to read."""
    if role.log.log_start_offset <= entry.fetch_offset < end_offset:
        raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR)


def _aborted(role: Role, offset: int, records: LogSlice) -> list[AbortedTransaction]:
    return [_answered(aborted) for aborted in role.log.aborted_within(offset, records)]


def _answered(aborted: TransactionIndexEntry) -> AbortedTransaction:
    return AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
