"""The transaction coordinator of one partition of ``__transaction_state``: a machine for `kpybroker.machines.journal`.

It decides how requests, written markers and the passing of time affect the transactional ids of its partition (Kafka:
``TransactionCoordinator``, ``TransactionStateManager``).

Kafka answers CONCURRENT_TRANSACTIONS to every request about a transactional id while a write for it is under way. Here
the next decision already builds on an earlier one, and the journal releases no answer before the records are in the
log. So that error is returned only while a transaction is prepared and not complete, where Kafka returns it too.
Otherwise a request that comes during a write waits for it, and its answer reflects the written state. A client cannot
tell this from a faster write.

A decision is short: work over many transactional ids is done in slices, each at a deadline that has already passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.coordination.sweeps import PAUSE_MS
from kpybroker.machines.journal import Effects, EventTooLarge, ProducerEpoch
from kpybroker.machines.transactions import end_transaction, expiry, init_producer_id, markers, partitions, timeouts
from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.describe import describe_transaction, list_transactions
from kpybroker.machines.transactions.events import (
    DescribeTransaction,
    ExpireTransactionalIds,
    ListTransactions,
    MarkersWritten,
    TransactionRequest,
    TransactionTimersDue,
)
from kpybroker.machines.transactions.shard import TransactionShard
from kpybroker.machines.transactions.transaction import NO_ID
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kpybroker.machines.transactions.record import TransactionRecord
    from kpybroker.machines.transactions.settings import TransactionSettings

_new: Final = tuple.__new__

WORK_AT_ONCE = 20_000
"""How many transactional ids one decision covers."""

_DECIDERS: dict[type, Callable[[TransactionShard, TransactionRequest, TransactionDecision], None]] = {
    AddOffsetsToTxnRequest: partitions.add_offsets,
    AddPartitionsToTxnTransaction: partitions.add_partitions,
    EndTxnRequest: end_transaction.end_transaction,
    InitProducerIdRequest: init_producer_id.init_producer_id,
}

_REFUSALS: dict[type, Callable[[TransactionRequest, int, TransactionDecision], None]] = {
    AddOffsetsToTxnRequest: partitions.answer_offsets,
    AddPartitionsToTxnTransaction: partitions.answer_partitions,
    EndTxnRequest: end_transaction.refuse,
    InitProducerIdRequest: init_producer_id.refuse,
}


class TransactionCoordinator:
    """The state machine for the transactions of one partition. It starts empty, is filled by a replay and gets
    `Loaded`; then it takes requests."""

    def __init__(self, settings: Callable[[], TransactionSettings]) -> None:
        """``settings`` is read for every decision."""
        self.shard = TransactionShard()
        self._settings = settings
        self._next_check_ms = 0
        self._retry_due_ms: int | None = None

    def decide(self, event: Any, now_ms: int) -> Effects:
        """Decide on an input. ``now_ms`` is monotonic; the wall clock comes with the event."""
        if type(event) is EventTooLarge:
            return self._decide_too_large(event.event, now_ms)
        shard = self.shard
        if not shard.unfinished:
            self._retry_due_ms = None
        new_producer_id = getattr(event, "new_producer_id", NO_ID)
        decision = TransactionDecision(now_ms, event.timestamp_ms, self._settings(), new_producer_id)
        kind = type(event)
        if kind is TransactionRequest:
            _DECIDERS[type(event.message)](shard, event, decision)
        elif kind is MarkersWritten:
            markers.markers_written(shard, event, decision)
        elif kind is TransactionTimersDue:
            self._run_timers(decision)
        elif kind is DescribeTransaction:
            describe_transaction(shard, event, decision)
        elif kind is ListTransactions:
            list_transactions(shard, event, decision)
        elif kind is ExpireTransactionalIds:
            expiry.expire(shard)
        elif kind is MetadataChanged:
            if shard.unmarked and event.deleted:
                deleted = ((topic, each) for topic, indexes in event.deleted.items() for each in indexes)
                markers.partitions_deleted(shard, deleted, decision)
        elif kind is Loaded:
            shard.sweeps.begin(shard.transactions, _wake)
        else:
            raise TypeError(f"The transaction coordinator does not handle {kind.__name__}")
        shard.sweeps.due_ms = now_ms + PAUSE_MS
        if shard.unfinished and self._retry_due_ms is None:
            self._retry_due_ms = now_ms + timeouts.RETRY_MS
        return Effects(decision.records, None, decision.replies, decision.sends)

    def apply(self, record: TransactionRecord, _offset: int, _producer: ProducerEpoch | None) -> None:
        """Apply one record of the log, replayed or just written."""
        self.shard.apply(record)

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:  # noqa: ARG002
        """Do nothing: no producer writes to ``__transaction_state`` in a transaction."""
        raise ValueError(f"A transaction marker of producer {producer.producer_id} at offset {offset}")

    def next_deadline_ms(self) -> int | None:
        """The time when `TransactionTimersDue` has to come, on the clock of ``now_ms``; None if nothing waits for time
        to pass.

        It may change with every input, so it has to be read again after each. It may have passed already: then there is
        more work to do.
        """
        deadline_ms = self.shard.timers.next_deadline_ms()
        if deadline_ms is not None:
            deadline_ms = max(deadline_ms, self._next_check_ms)
        if self.shard.sweeps.waiting:
            deadline_ms = self.shard.sweeps.sooner(deadline_ms)
        retry_ms = self._retry_due_ms if self.shard.unfinished else None
        if retry_ms is not None and (deadline_ms is None or deadline_ms > retry_ms):
            deadline_ms = retry_ms
        return deadline_ms

    def _run_timers(self, decision: TransactionDecision) -> None:
        if decision.now_ms >= self._next_check_ms:
            self._abort_timed_out(decision)
        if self._retry_due_ms is not None and decision.now_ms >= self._retry_due_ms:
            self._retry_due_ms = None
            for transactional_id in list(self.shard.unfinished):
                markers.complete(self.shard, transactional_id, decision)
        self.shard.sweeps.advance(self.shard, decision, WORK_AT_ONCE, _weigh)

    def _abort_timed_out(self, decision: TransactionDecision) -> None:
        for _nth in range(WORK_AT_ONCE):
            if decision.is_full:
                return
            transactional_id = self.shard.timers.pop_due(decision.now_ms)
            if transactional_id is None:
                if decision.records:
                    self._next_check_ms = decision.now_ms + decision.settings.timeout_check_interval_ms
                return
            if not timeouts.look_at(self.shard, transactional_id, decision):
                return

    def _decide_too_large(self, event: Any, now_ms: int) -> Effects:
        """Refuse a request whose records did not fit into a batch, as Kafka does."""
        decision = TransactionDecision(now_ms, event.timestamp_ms, self._settings(), NO_ID)
        if type(event) is TransactionRequest:
            _REFUSALS[type(event.message)](event, error_codes.UNKNOWN_SERVER_ERROR, decision)
        return Effects(replies=decision.replies)


def _weigh(_transactional_id: str) -> int:
    return 1


def _wake(shard: TransactionShard, transactional_id: str, decision: TransactionDecision) -> bool:
    """Resume a transaction that was found in the log: send its markers again, or set its timeout."""
    transaction = shard.transactions.get(transactional_id)
    if transaction is not None:
        if transaction.is_prepared:
            markers.resume(shard, transactional_id, decision)
        else:
            shard.watch(transactional_id, transaction, decision)
    return True
