"""The reading of a ShareFetch: records are acquired for a member, at once or later (Kafka: ``DelayedShareFetch``).

The partitions come in turn, and share the bytes of an answer evenly. A request that waits is woken by what may give it
records: an append, a release, the end of a lock, a loaded state. It is answered at the latest after ``max_wait_ms``.

Invariant: records are acquired only for an answer that is sent.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.partition.role import READ_COMMITTED
from kpybroker.machines.share import archiving
from kpybroker.machines.share.aborted import AbortedTransaction, leave_out_aborted
from kpybroker.machines.share.acquiring import Acquired, AcquireRequest, acquire
from kpybroker.machines.share.sessions import Partition
from kpybroker.requests.serving.share.batches import log_batches, part_with, read_batches, transactional_batches
from kpybroker.requests.serving.share.led import LedSharePartition
from kpybroker.requests.serving.share.share_leader import ShareLeader
from kpybroker.runtime.calls.pending import Parked
from kpystorage.errors import OffsetOutOfRange, StorageError
from kpystorage.log_slice import LogSlice
from kpystorage.memory_slice import memory_slice
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire import error_codes
from kpywire.messages.share_fetch import AcquiredRecords, LeaderIdAndEpoch, PartitionData

if TYPE_CHECKING:
    from kpybroker.hosts.remote_log.remote_log import RemoteLog

MOST_ATTEMPTS: Final = 8
"""How often a request looks again at once when all that it found was archived."""

Answer = dict[Partition, PartitionData]


class ShareFetchBounds(NamedTuple):
    """The sizes that a request asks for."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class _Found(NamedTuple):
    led: LedSharePartition
    offset: int
    records: LogSlice
    aborted: list[TransactionIndexEntry] | None = None
    """The aborted transactions among records of the store; None for those of the disk, whose log knows them."""


class ShareRead:
    """One ShareFetch, until it is answered."""

    __slots__ = (
        "_acquirable",
        "_acquire_request",
        "_answered",
        "_asked",
        "_bounds",
        "_errors",
        "_group_id",
        "_isolation",
        "_leader",
        "_led",
        "_parked",
        "_reads",
        "_since_ms",
        "_store_wait_ms",
    )  # fmt: skip

    def __init__(
        self,
        leader: ShareLeader,
        group_id: str,
        request: AcquireRequest,
        bounds: ShareFetchBounds,
        partitions: Iterable[Partition],
    ) -> None:
        self._leader = leader
        self._group_id = group_id
        self._acquire_request = request
        self._bounds = bounds
        self._led: dict[Partition, LedSharePartition] = {}
        self._errors: Answer = {}
        self._answered: Callable[[Answer], Any]
        self._parked: Parked | None = None
        self._isolation: int
        self._acquirable = 0
        """How many partitions there were to acquire records from at the last look."""
        self._reads = leader.metrics.of(group_id)
        self._since_ms = leader.broker.scheduler.monotonic_ms()
        """The time of the last look that found a partition to acquire records from, or of the request."""
        for partition in partitions:
            try:
                self._led[partition] = leader.take_up(group_id, partition)
            except (KafkaError, StorageError) as error:
                self._refuse(partition, error)
        self._asked = len(self._led)
        self._store_wait_ms = 0
        """The time for which it may wait for records of the store; 0 if it asked for none."""

    def read(self, answered: Callable[[Answer], Any]) -> Any:
        """The response that ``answered`` makes of the answers, or a `Pending` of it."""
        found = self._collect(is_last=self._bounds.max_wait_ms <= 0)
        if found is not None:
            return answered(found)
        self._answered = answered
        wait_ms = max(self._bounds.max_wait_ms, self._store_wait_ms)
        self._parked = parked = Parked(self._leader.broker.scheduler, wait_ms, self._look, self._expire, self._forget)
        for led in self._led.values():
            led.waiting[parked] = None
        return parked.pending

    # Waiting

    def _look(self) -> Any | None:
        found = self._collect(is_last=False)
        return None if found is None else self._answered(found)

    def _expire(self) -> Any:
        self._leader.metrics.expired += 1
        return self._answered(self._collect(is_last=True) or {})

    def _forget(self) -> None:
        if self._parked is not None:
            for led in self._led.values():
                led.waiting.pop(self._parked, None)

    # Reading

    def _refuse(self, partition: Partition, error: KafkaError | StorageError) -> None:
        self._errors[partition] = refused(partition[1], self._leader.broker.replicas.code_of(error))

    def _collect(self, *, is_last: bool) -> Answer | None:
        """Acquire records if there are enough. None if the request has to wait."""
        # as it is set now: it may have changed while the request waited
        self._isolation = self._leader.settings_of(self._group_id).isolation
        for _ in range(MOST_ATTEMPTS):
            found = self._find()
            self._take_errors()
            size = sum(len(each.records) for each in found)
            if not is_last and not self._errors and (not found or size < self._bounds.min_bytes):
                return None
            answer, was_given = self._acquire(found)
            if was_given or is_last or self._errors:
                if self._asked:
                    self._reads.answered(self._acquirable, self._asked)
                return {**answer, **self._errors}
        return None

    def _take_errors(self) -> None:
        for partition, led in list(self._led.items()):
            if led.end is not None:
                del self._led[partition]
                self._refuse(partition, led.end)

    def _find(self) -> list[_Found]:
        """Read the log of each partition in which there may be something to acquire."""
        able = [led for led in self._led.values() if led.is_loaded and led.end is None and self._can_acquire(led)]
        self._acquirable = len(able)
        if able:
            now_ms = self._leader.broker.scheduler.monotonic_ms()
            self._reads.could_acquire(now_ms - self._since_ms)
            self._since_ms = now_ms
        found: list[_Found] = []
        for led in able:
            try:
                each = self._read(led, self._bounds.max_bytes // len(able), is_first=not found)
            except (KafkaError, StorageError) as error:
                self._refuse((led.key.topic_id, led.key.partition), error)
                continue
            if each is not None:
                found.append(each)
        return found

    def _can_acquire(self, led: LedSharePartition) -> bool:
        led.refresh()
        return led.partition.can_acquire()

    def _read(self, led: LedSharePartition, max_bytes: int, *, is_first: bool) -> _Found | None:
        role = led.replica.led()
        log_start_offset = role.log.log_start_offset
        if led.partition.start_offset < log_start_offset:
            archiving.log_starts_at(led.partition, log_start_offset)
        offset = led.partition.next_fetch_offset()
        if offset > role.log.log_end_offset:
            return None
        end, first = role.end_for(self._isolation), max(offset, log_start_offset)
        try:
            records = role.read(first, max_bytes, end, min_one_batch=is_first)
        except OffsetOutOfRange:
            remote_log = self._leader.broker.remote_log
            if remote_log is None:
                raise
            return self._read_from_store(led, role, offset, first, max_bytes, remote_log)
        return None if records is None else _Found(led, offset, records)

    def _read_from_store(
        self,
        led: LedSharePartition,
        role: PartitionLeader,
        offset: int,
        first: int,
        max_bytes: int,
        remote_log: "RemoteLog",
    ) -> _Found | None:
        """The records that only the store has; None while they are read: this request is woken then."""
        from kpybroker.hosts.remote_log.reads import WantedRecords  # not of a plain start

        committed_only = self._isolation == READ_COMMITTED
        wanted = WantedRecords(
            led.key.topic_id, led.key.partition, first, max_bytes, committed_only, self._store_has_answered
        )
        found = remote_log.read(wanted, role)
        if found is None:
            self._store_wait_ms = remote_log.fetch_wait_ms()
            return None
        if not found.records:
            return None
        records = found.records[: max(max_bytes, found.first_batch_bytes)]
        return _Found(led, offset, memory_slice(records), found.aborted)

    def _store_has_answered(self) -> None:
        if self._parked is not None:
            self._parked.wake()

    def _acquire(self, found: Iterable[_Found]) -> tuple[Answer, bool]:
        """Acquire records out of those that were found. Whether there were any."""
        answer: Answer = {}
        left = self._acquire_request.max_records
        for each in found:
            led = each.led
            key = (led.key.topic_id, led.key.partition)
            with led.replica.led().log.directory.failing():
                given, part = self._acquire_one(each, left)
            data = answer[key] = PartitionData(
                partition_index=led.key.partition,
                error_code=error_codes.NONE,
                acknowledge_error_code=error_codes.NONE,
                current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
                records=b"" if part is None else part,
                acquired_records=[
                    AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                    for first, last, count in given
                ],
            )
            left -= sum(last - first + 1 for first, last, _ in given)
            if data.acquired_records:
                for first, last, count in given:
                    if count == 1:
                        self._reads.acquired(last - first + 1)
                led.limit_locks()
                led.replica.topic.bytes_out += len(data.records)
        return answer, left < self._acquire_request.max_records

    def _acquire_one(self, found: _Found, most: int) -> tuple[list[Acquired], LogSlice | None]:
        led, offset, records, of_store = found
        partition = led.partition
        if most <= 0:
            return [], None
        batches = read_batches(records, max(partition.end_offset, offset - 1) + most)
        request = self._acquire_request._replace(max_records=most)
        given = acquire(partition, request, offset, log_batches(batches), led.now_ms())
        if given and self._isolation == READ_COMMITTED:
            entries = of_store
            if entries is None:
                log = led.replica.led().log
                entries = log.aborted_within(max(offset, batches[0].header.base_offset), records)
            aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in entries]
            if aborted:
                given = leave_out_aborted(partition, given, transactional_batches(records, batches), aborted)
        return given, part_with(records, batches, given) if given else None


def refused(index: int, code: int) -> PartitionData:
    """The answer for a partition that cannot be read."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        acknowledge_error_code=error_codes.NONE,
        current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        records=b"",
        acquired_records=[],
    )
