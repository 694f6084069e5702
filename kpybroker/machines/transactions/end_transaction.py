"""EndTxn: a producer commits or aborts (KIP-98), and from version 5 on gets a new epoch (KIP-890).

(Kafka: ``TransactionCoordinator.endTransaction``, ``endTransactionWithTV1``.) The answer is sent when the outcome is in
the log; the partitions get their markers after that.
"""

from typing import Final

from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.events import TransactionRequest
from kpybroker.machines.transactions.responses import answer_with_producer
from kpybroker.machines.transactions.shard import TransactionShard
from kpybroker.machines.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    LAST_EPOCH,
    NO_ID,
    Transaction,
    TransactionState,
)
from kpywire import error_codes
from kpywire.messages.end_txn import EndTxnRequest, EndTxnResponse

_EPOCH_BUMP_REQUEST: Final = 5


def end_transaction(shard: TransactionShard, request: TransactionRequest, decision: TransactionDecision) -> None:
    """Decide the outcome, or repeat an answer that may have been lost."""
    message: EndTxnRequest = request.message
    transaction = shard.transactions.get(message.transactional_id)
    if not message.transactional_id:
        ended: Transaction | int = error_codes.INVALID_REQUEST
    elif transaction is None:
        ended = error_codes.INVALID_PRODUCER_ID_MAPPING
    elif request.api_version < _EPOCH_BUMP_REQUEST:
        ended = _end(transaction, message, decision)
    else:
        ended = _end_and_bump(transaction, message, decision)
    answer_with_producer(EndTxnResponse, request, ended, decision)


def refuse(request: TransactionRequest, error_code: int, decision: TransactionDecision) -> None:
    """Answer an EndTxn with an error."""
    answer_with_producer(EndTxnResponse, request, error_code, decision)


def _end(transaction: Transaction, message: EndTxnRequest, decision: TransactionDecision) -> Transaction | int:
    """End a transaction for a request before version 5: the epoch stays, so a repeated request looks like the first."""
    if transaction.producer_id != message.producer_id:
        return error_codes.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != message.producer_epoch:
        return error_codes.PRODUCER_FENCED
    if transaction.is_prepared:
        return error_codes.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING:
        prepared = transaction.prepared(_outcome(message), 0, NO_ID, decision.timestamp_ms)
        return decision.write_outcome(message.transactional_id, prepared)
    return transaction if _is_complete(transaction, message) else error_codes.INVALID_TXN_STATE


def _end_and_bump(transaction: Transaction, message: EndTxnRequest, decision: TransactionDecision) -> Transaction | int:
    """End a transaction for a request from version 5 on, which raises the epoch. With the previous epoch the request is
    a repetition.

    With the current epoch it is a new request. Then there may be nothing to commit, but an abort gives a new epoch.
    """
    if transaction.is_prepared:
        return error_codes.CONCURRENT_TRANSACTIONS
    is_rotated = (
        transaction.previous_producer_id == message.producer_id
        and message.producer_epoch == LAST_EPOCH
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != message.producer_id and not is_rotated:
        return error_codes.INVALID_PRODUCER_ID_MAPPING
    is_ended = (
        transaction.state is TransactionState.COMPLETE_COMMIT or transaction.state is TransactionState.COMPLETE_ABORT
    )
    is_repeated = is_ended and (is_rotated or transaction.producer_epoch == message.producer_epoch + 1)
    if is_repeated:
        return transaction if _is_complete(transaction, message) else error_codes.INVALID_TXN_STATE
    if transaction.producer_epoch != message.producer_epoch:
        return error_codes.PRODUCER_FENCED
    if transaction.state is not TransactionState.ONGOING and message.committed:
        return error_codes.INVALID_TXN_STATE
    next_producer_id = NO_ID
    if transaction.is_exhausted:
        next_producer_id = decision.take_producer_id()
        if next_producer_id == NO_ID:
            return error_codes.COORDINATOR_LOAD_IN_PROGRESS
    prepared = transaction.prepared(_outcome(message), EPOCH_BUMP_VERSION, next_producer_id, decision.timestamp_ms)
    return decision.write_outcome(message.transactional_id, prepared)


def _outcome(message: EndTxnRequest) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if message.committed else TransactionState.PREPARE_ABORT


def _is_complete(transaction: Transaction, message: EndTxnRequest) -> bool:
    """Whether the transaction has already ended as the request asks."""
    return transaction.state is (
        TransactionState.COMPLETE_COMMIT if message.committed else TransactionState.COMPLETE_ABORT
    )
