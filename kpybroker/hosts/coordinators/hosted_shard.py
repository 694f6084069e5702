"""One machine on one led partition: its inputs go through a journal onto the partition's log.

It is open when the log was replayed to its end (:mod:`kpybroker.hosts.coordinators.loading`), and ends with the
leadership or the log directory. Then every waiting request fails, and a new shard begins with the next leadership.

Invariant: while it is open, no other shard decides for this partition in this leader epoch.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

from kpybroker.hosts.coordinators.kind import CoordinatorKind, EncodedRecord
from kpybroker.hosts.coordinators.tickets import AnswerQueue, CoordinatorTicket
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.journal import AppendRefused, BatchTooLarge, DecisionFailed, Journal, Prepared, ProducerEpoch
from kpybroker.machines.partition.leader import Marker, PartitionLeader
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage.errors import DiskFailure, StorageError
from kpywire import error_codes
from kpywire.batch import parse_header
from kpywire.compression import NONE
from kpywire.record import Record, build_batch, plain_batch, plain_batch_of, transactional_batch_of

log = logging.getLogger("kpybroker.hosting")

RETRY_MS: Final = 1_000
"""The delay before a log that accepted no writes is tried again."""
COMPRESSED_AT_ONCE_BYTES: Final = 128 * 1024
"""The most bytes of records that are compressed on the loop, which takes a few milliseconds. More are written as they
are, except those of a large commit, which are compressed in a thread."""
_TOO_LARGE: Final = (error_codes.MESSAGE_TOO_LARGE, error_codes.RECORD_LIST_TOO_LARGE)


class Callbacks(NamedTuple):
    """The functions that a shard calls."""

    disk_failed: Callable[[DiskFailure], None]
    """Called with failures of the log."""
    ended: Callable[["HostedShard"], None]
    """Called once, when the shard is over."""
    woke: Callable[["HostedShard"], None]
    """Called when a deadline has passed; has `HostedShard.run_timers` called soon."""
    first_events: Callable[[], Sequence[Any]]
    """Returns the inputs that begin an open shard."""


class HostedShard:
    """A coordinator's part in one leader epoch of one partition."""

    def __init__(
        self, kind: CoordinatorKind, replica: Replica, scheduler: Scheduler, answers: AnswerQueue, callbacks: Callbacks
    ) -> None:
        self.kind = kind
        self.replica = replica
        self.epoch = replica.partition.leader_epoch
        self.machine = kind.new_machine()
        self.journal = Journal(
            self.machine,
            self._append,
            closed_error=error_codes.COORDINATOR_LOAD_IN_PROGRESS,
            admit=self._admit,
            send=lambda send: kind.send(self, send),
            report=self._report,
        )
        self.is_over = False
        self.begins_anew = False
        """Whether this shard is over and another one has to replace it."""
        self._scheduler = scheduler
        self._answers = answers
        self.disk_failed, self._ended, self._woke, self._first_events = callbacks
        self._missed: list[Any] = []
        self._untold: list[Any] = []
        self._appended = False
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        replica.commit_waits[self] = None

    def __str__(self) -> str:
        return str(self.replica)

    # Inputs

    def submit(
        self,
        event: Any,
        ticket: CoordinatorTicket | None,
        key: str | None,
        *,
        writes: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Feed an event. With too few replicas in sync, an event that may write is refused: soft state would run
        ahead."""
        if self._untold:
            self.tell_now()
        monotonic_ms = self._scheduler.monotonic_ms()
        now_ms = int(monotonic_ms)
        self._answers.begin_slice(monotonic_ms)
        journal = self.journal
        if writes and journal.is_open and not self.has_enough_in_sync:
            if ticket is not None:
                ticket.fail(error_codes.NOT_ENOUGH_REPLICAS)
            else:
                self._miss(event)
            return
        deadline_ms = None if timeout_ms is None else now_ms + timeout_ms
        try:
            journal.submit(event, now_ms, ticket=ticket, key=key, deadline_ms=deadline_ms)
        except Exception:
            self._begin_anew()
            return
        if self._appended:
            self._appended = False
            self.replica.changed()
        self._set_timer(now_ms)

    def answer_again(self, message: Any) -> Any | None:
        """The machine's answer to a message that changes nothing, if it knows the answer and all its records are
        committed; otherwise None."""
        journal, machine = self.journal, cast(Any, self.machine)
        if self._untold or journal.waiting_gates or not (journal.is_open and self.leads and self.has_enough_in_sync):
            return None
        return machine.answer_again(message, int(self._scheduler.monotonic_ms()))

    def _begin_anew(self) -> None:
        """End this shard and let another one begin: an appended record could not be applied, so the machine differs
        from its log."""
        log.exception("%s is loaded from its log again because of a defect", self)
        self.begins_anew = True
        self.end()

    def tell(self, event: Any) -> None:
        """Feed an event that no request waits for. If it comes too early, it is kept until the shard is open."""
        if self.is_over:
            return
        if self.journal.is_open:
            self.submit(event, None, None)
        else:
            self._missed.append(event)

    def _miss(self, event: Any) -> None:
        """Keep an event that nobody would repeat, such as the one after a load, until enough replicas are in sync."""
        if type(event) is self.kind.periodic:
            return  # it comes again by itself
        if not self._missed:
            self._scheduler.call_later(RETRY_MS, self._feed_missed)
        self._missed.append(event)

    def _feed_missed(self) -> None:
        missed, self._missed = self._missed, []
        for event in missed:
            self.tell(event)

    def tell_soon(self, event: Any) -> None:
        """Queue an event like `tell`, to be fed before the next input or with `tell_now`."""
        self._untold.append(event)

    def tell_now(self) -> None:
        """Feed the events of `tell_soon`."""
        untold, self._untold = self._untold, []
        for event in untold:
            self.tell(event)

    def mark(self, marker: Marker) -> int:
        """End a producer's transaction: its pending state becomes visible, or is dropped. Returns the offset after the
        marker.

        Raises:
            KafkaError, StorageError: the marker is refused; nothing was written.
        """
        if self._untold:
            self.tell_now()
        leader = self.replica.led()
        offset = leader.append_marker(
            marker, self._scheduler.now_ms(), log_append_time=self.replica.topic.validation.log_append_time
        )
        try:
            self.journal.mark(ProducerEpoch(marker.producer_id, marker.producer_epoch), offset, commit=marker.commit)
        except Exception:
            self._begin_anew()
        self.replica.changed()
        return offset + 1

    def open(self) -> None:
        """Open the shard: its log was replayed to its end."""
        leader = self.replica.leader
        if leader is None:
            self.journal.open(0, 0)
        else:
            self.journal.open(leader.high_watermark.offset, leader.log.log_end_offset)
        missed, self._missed = self._missed, []
        for event in (*self._first_events(), *missed):
            self.tell(event)

    def check(self) -> None:
        """Check again, since the high watermark, the leadership or the directory changed. Called by the replica."""
        if self.is_over:
            return
        if not self.leads:
            self.end()
            return
        leader = self.replica.leader
        journal = self.journal
        if leader is not None and journal.is_open and leader.high_watermark.offset > journal.committed_offset:
            now_ms = self._scheduler.monotonic_ms()
            self._answers.begin_slice(now_ms)
            journal.committed(leader.high_watermark.offset, int(now_ms))

    def end(self, error_code: int = error_codes.NOT_COORDINATOR) -> None:
        """Fail all waiting requests, and take no more input."""
        if self.is_over:
            return
        self.is_over = True
        self.replica.commit_waits.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        self._answers.begin_slice(self._scheduler.monotonic_ms())
        self.journal.drop(error_code)
        self._ended(self)

    # What the journal asks of the log

    @property
    def leads(self) -> bool:
        """Whether this node still leads the partition in the shard's term."""
        replica = self.replica
        return replica.is_led_here and replica.partition.leader_epoch == self.epoch

    def _admit(self) -> int:
        return error_codes.NONE if self.leads else error_codes.NOT_COORDINATOR

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether enough replicas are in sync for the log to accept the machine's records."""
        partition, leader = self.replica.partition, self.replica.leader
        # In ZooKeeper mode what a leader asked the controller for is in no order.
        in_sync = len(partition.isr if leader is None else leader.in_sync.isr)
        return in_sync >= self.replica.topic.config.min_insync_replicas or in_sync >= len(partition.replicas)

    def _append(self, records: Sequence[Any], producer: ProducerEpoch | None, _now_ms: int) -> tuple[int, int]:
        if not self.has_enough_in_sync:
            raise AppendRefused(error_codes.NOT_ENOUGH_REPLICAS)
        now_ms = self._scheduler.now_ms()
        codec, validation = self.kind.codec(), self.replica.topic.validation
        prepared = records[0] if type(records[0]) is Prepared else None
        pairs, size = ([], 0) if prepared else self._encoded(records, validation.max_message_bytes)
        codec = codec if size <= COMPRESSED_AT_ONCE_BYTES else NONE
        try:
            leader = self.replica.led()
            if leader.epoch != self.epoch:
                raise AppendRefused(error_codes.NOT_LEADER_OR_FOLLOWER)
            if producer is None:
                base_offset, epoch = leader.log.log_end_offset, leader.epoch
                count = len(pairs)
                if prepared is not None:
                    count = len(prepared.records)
                    batch = plain_batch_of(prepared.section, count, base_offset, epoch, now_ms, prepared.codec)
                elif codec:
                    written = [Record(-1, now_ms, *pair) for pair in pairs]
                    batch = build_batch(written, base_offset=base_offset, codec=codec, partition_leader_epoch=epoch)
                else:
                    batch = plain_batch(pairs, base_offset, epoch, now_ms)
                first_offset, next_offset = leader.append_built(batch, count, validation, now_ms)
            else:
                first_offset, next_offset = self._append_of(producer, prepared, pairs, leader, now_ms, codec)
        except KafkaError as error:
            if error.code in _TOO_LARGE:
                raise BatchTooLarge from None
            raise AppendRefused(error.code) from None
        except StorageError as error:
            if isinstance(error, DiskFailure):
                self.disk_failed(error)
            raise AppendRefused(error.error_code) from None
        self._appended = True
        if leader.high_watermark.offset >= next_offset:
            self.journal.committed_at_once(next_offset)
        return first_offset, next_offset

    def _encoded(
        self, records: Sequence[EncodedRecord], max_message_bytes: int
    ) -> tuple[list[tuple[bytes, bytes | None]], int]:
        """Keys and values as a batch takes them, and their size. Raises BatchTooLarge as soon as it is clear that they
        will not fit."""
        encoded = []
        room = max_message_bytes
        for record in records:
            pair = record.encoded()
            key, value = pair
            room -= len(key) + (0 if value is None else len(value))
            if room < 0:
                raise BatchTooLarge
            encoded.append(pair)
        return encoded, max_message_bytes - room

    def _append_of(
        self,
        producer: ProducerEpoch,
        prepared: Prepared | None,
        pairs: Sequence[tuple[bytes, bytes | None]],
        leader: PartitionLeader,
        now_ms: int,
        codec: int,
    ) -> tuple[int, int]:
        """Append on behalf of a transaction: its producer has no sequences here (``MemoryRecordsBuilder``, KIP-447)."""
        first_offset = leader.log.log_end_offset
        if prepared is not None:
            batch = transactional_batch_of(
                prepared.section, len(prepared.records), first_offset, leader.epoch, now_ms, producer, prepared.codec
            )
        else:
            batch = build_batch(
                [Record(-1, now_ms, *pair) for pair in pairs],
                base_offset=first_offset,
                codec=codec,
                partition_leader_epoch=leader.epoch,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional=True,
            )
        if len(batch) > self.replica.topic.validation.max_message_bytes:
            raise BatchTooLarge
        _, next_offset, _ = leader.append_in_transaction(parse_header(batch), batch, now_ms)
        return first_offset, next_offset

    def _report(self, failed: DecisionFailed) -> None:
        # Its name only: an event may hold what a client wants nobody to read.
        event = getattr(failed.event, "message", failed.event)
        log.error("%s could not decide on a %s because of a defect", self, type(event).__name__, exc_info=failed.error)

    # Time

    def _set_timer(self, now_ms: int) -> None:
        """Set the timer for the machine's next deadline, or for the timeout of a request that waits for its append."""
        if self.is_over:
            return
        deadline_ms = self.machine.next_deadline_ms()
        if self.journal.waiting_gates:
            of_requests_ms = self.journal.expire(now_ms)
            if deadline_ms is None or (of_requests_ms is not None and of_requests_ms < deadline_ms):
                deadline_ms = of_requests_ms
        if deadline_ms is None:
            return
        if self._timer is not None:
            # One that comes too early is set again then: most deadlines are put off again and again.
            if self._timer_at_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        self._timer = self._scheduler.call_later(max(deadline_ms - now_ms, 0), self._due)

    def _due(self) -> None:
        self._woke(self)

    def run_timers(self) -> None:
        """Do the work of a deadline that has passed."""
        if self.is_over:
            return
        self._timer = None
        now_ms = int(self._scheduler.monotonic_ms())
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            self._set_timer(now_ms)
        elif self.has_enough_in_sync:
            self.submit(self.kind.timers_due(self._scheduler.now_ms()), None, None)
        else:
            self._timer_at_ms = now_ms + RETRY_MS
            self._timer = self._scheduler.call_later(RETRY_MS, self._due)
