"""The transaction coordinator of one partition of ``__transaction_state``: a machine for `kpybroker.journal`.

It decides what requests, markers that are written and the passing of time mean for the transactional ids of its
partition (Kafka: ``TransactionCoordinator``, ``TransactionStateManager``).

Kafka answers CONCURRENT_TRANSACTIONS to whatever concerns a transactional id while a write for it is under way. Here a
decision counts at once for the next one, and the journal lets nobody know before it is in the log. So that answer is
given only while a transaction is prepared and not complete, where Kafka gives it too; otherwise a request that comes
during a write waits for it and gets the answer of after it. A client cannot tell this from a write that was quicker.

A decision is short: work over many transactional ids is done in slices, each at a deadline that has come already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kpybroker.journal import Effects, ProducerEpoch, TooLarge
from kpybroker.transactions import end_transaction, expiry, init_producer_id, markers, partitions, timeouts
from kpybroker.transactions.decision import Decision
from kpybroker.transactions.describe import describe_transaction, list_transactions
from kpybroker.transactions.events import (
    DescribeTransaction,
    ExpireTransactionalIds,
    ListTransactions,
    Loaded,
    MarkersWritten,
    PartitionsDeleted,
    TimersDue,
    TransactionRequest,
)
from kpybroker.transactions.shard import Shard, Sweep
from kpybroker.transactions.transaction import NO_ID
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kpybroker.transactions.record import Record
    from kpybroker.transactions.settings import TransactionSettings

_new: Final = tuple.__new__

WORK_AT_ONCE = 20_000
"""How many transactional ids one decision looks at."""

SWEEP_PAUSE_MS = 1

_DECIDERS: dict[type, Callable[[Shard, TransactionRequest, Decision], None]] = {
    AddOffsetsToTxnRequest: partitions.add_offsets,
    AddPartitionsToTxnTransaction: partitions.add_partitions,
    EndTxnRequest: end_transaction.end_transaction,
    InitProducerIdRequest: init_producer_id.init_producer_id,
}

_REFUSALS: dict[type, Callable[[TransactionRequest, int, Decision], None]] = {
    AddOffsetsToTxnRequest: partitions.answer_offsets,
    AddPartitionsToTxnTransaction: partitions.answer_partitions,
    EndTxnRequest: end_transaction.refuse,
    InitProducerIdRequest: init_producer_id.refuse,
}


class TransactionCoordinator:
    """Decides on the transactions of one partition. Made empty, filled by a replay, told `Loaded`, then asked."""

    def __init__(self, settings: Callable[[], TransactionSettings]) -> None:
        """``settings`` is asked with every decision."""
        self.shard = Shard()
        self._settings = settings
        self._next_check_ms = 0
        self._sweep_due_ms = 0
        self._retry_due_ms: int | None = None

    def decide(self, event: Any, now_ms: int) -> Effects:
        """What an input means. ``now_ms`` is monotonic; the wall clock comes with the event."""
        if type(event) is TooLarge:
            return self._decide_too_large(event.event, now_ms)
        shard = self.shard
        if not shard.unfinished:
            self._retry_due_ms = None
        new_producer_id = getattr(event, "new_producer_id", NO_ID)
        decision = Decision(now_ms, event.timestamp_ms, self._settings(), new_producer_id)
        kind = type(event)
        if kind is TransactionRequest:
            _DECIDERS[type(event.message)](shard, event, decision)
        elif kind is MarkersWritten:
            markers.markers_written(shard, event, decision)
        elif kind is TimersDue:
            self._run_timers(decision)
        elif kind is DescribeTransaction:
            describe_transaction(shard, event, decision)
        elif kind is ListTransactions:
            list_transactions(shard, event, decision)
        elif kind is ExpireTransactionalIds:
            expiry.expire(shard)
        elif kind is PartitionsDeleted:
            if shard.unmarked:
                deleted = ((topic, each) for topic, indexes in event.partitions.items() for each in indexes)
                markers.partitions_deleted(shard, deleted, decision)
        elif kind is Loaded:
            shard.sweeps.append(Sweep(shard.transactions, _wake))
        else:
            raise TypeError(f"The transaction coordinator is not told of {kind.__name__}")
        if shard.sweeps:
            self._sweep_due_ms = now_ms + SWEEP_PAUSE_MS
        if shard.unfinished and self._retry_due_ms is None:
            self._retry_due_ms = now_ms + timeouts.RETRY_MS
        return _new(Effects, (decision.records, None, decision.replies, decision.sends, None))

    def apply(self, record: Record, _offset: int, _producer: ProducerEpoch | None) -> None:
        """One record of the log, old or written just now."""
        self.shard.apply(record)

    def apply_marker(self, producer: ProducerEpoch, _commit: bool, offset: int) -> None:
        """Nobody writes to ``__transaction_state`` in a transaction."""
        raise ValueError(f"A transaction marker of producer {producer.producer_id} at offset {offset}")

    def next_deadline_ms(self) -> int | None:
        """When `TimersDue` is to come, on the clock of ``now_ms``; None if nothing waits for time to pass.

        To be asked anew after every input. It may have passed already: then there is more to do.
        """
        deadline_ms = self.shard.timers.next_deadline_ms()
        if deadline_ms is not None:
            deadline_ms = max(deadline_ms, self._next_check_ms)
        if self.shard.sweeps and (deadline_ms is None or deadline_ms > self._sweep_due_ms):
            deadline_ms = self._sweep_due_ms
        retry_ms = self._retry_due_ms if self.shard.unfinished else None
        if retry_ms is not None and (deadline_ms is None or deadline_ms > retry_ms):
            deadline_ms = retry_ms
        return deadline_ms

    def _run_timers(self, decision: Decision) -> None:
        if decision.now_ms >= self._next_check_ms:
            self._abort_timed_out(decision)
        if self._retry_due_ms is not None and decision.now_ms >= self._retry_due_ms:
            self._retry_due_ms = None
            for transactional_id in list(self.shard.unfinished):
                markers.complete(self.shard, transactional_id, decision)
        self._sweep(decision)

    def _abort_timed_out(self, decision: Decision) -> None:
        for _ in range(WORK_AT_ONCE):
            if decision.is_full:
                return
            transactional_id = self.shard.timers.pop_due(decision.now_ms)
            if transactional_id is None:
                if decision.records:
                    self._next_check_ms = decision.now_ms + decision.settings.timeout_check_interval_ms
                return
            if not timeouts.look_at(self.shard, transactional_id, decision):
                return

    def _sweep(self, decision: Decision) -> None:
        shard = self.shard
        work = 0
        while shard.sweeps and work < WORK_AT_ONCE and not decision.is_full:
            sweep = shard.sweeps[0]
            if not sweep.transactional_ids:
                shard.sweeps.popleft()
                continue
            sweep.visit(shard, sweep.transactional_ids.popleft(), decision)
            work += 1

    def _decide_too_large(self, event: Any, now_ms: int) -> Effects:
        """The records of a request did not fit into a batch: say so, as Kafka does."""
        decision = Decision(now_ms, event.timestamp_ms, self._settings(), NO_ID)
        if type(event) is TransactionRequest:
            _REFUSALS[type(event.message)](event, error_codes.UNKNOWN_SERVER_ERROR, decision)
        return Effects(replies=decision.replies)


def _wake(shard: Shard, transactional_id: str, decision: Decision) -> None:
    """What was found in the log goes on: markers are sent anew, timeouts run."""
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        return
    if transaction.is_prepared:
        markers.resume(shard, transactional_id, decision)
    else:
        shard.watch(transactional_id, transaction, decision)
