"""InitProducerId with a transactional id: a producer begins, fences its predecessor, or recovers (KIP-98, KIP-360).

(Kafka: ``TransactionCoordinator.handleInitProducerId``.) Version 6, two-phase commit, is not advertised, as in Kafka
4.3.
"""

from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.events import TransactionRequest
from kpybroker.machines.transactions.outcome import fence
from kpybroker.machines.transactions.responses import answer_with_producer
from kpybroker.machines.transactions.shard import TransactionShard
from kpybroker.machines.transactions.transaction import LAST_EPOCH, NO_EPOCH, NO_ID, Transaction, TransactionState
from kpywire import error_codes
from kpywire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(shard: TransactionShard, request: TransactionRequest, decision: TransactionDecision) -> None:
    """Give a producer its id and a higher epoch than any before, or abort the transaction that its predecessor left
    open."""
    message: InitProducerIdRequest = request.message
    transactional_id = message.transactional_id or ""
    begun = _refusal(message, decision) or _begin(shard.transactions.get(transactional_id), message, decision)
    if isinstance(begun, Transaction):
        decision.write(transactional_id, begun)
    answer_with_producer(InitProducerIdResponse, request, begun, decision)


def refuse(request: TransactionRequest, error_code: int, decision: TransactionDecision) -> None:
    """Answer an InitProducerId with an error."""
    answer_with_producer(InitProducerIdResponse, request, error_code, decision)


def _refusal(message: InitProducerIdRequest, decision: TransactionDecision) -> int:
    """The error of a request that is wrong for any sender, or NONE."""
    if (message.producer_id == NO_ID) != (message.producer_epoch == NO_EPOCH) or not message.transactional_id:
        return error_codes.INVALID_REQUEST
    if not 0 < message.transaction_timeout_ms <= decision.settings.max_timeout_ms:
        return error_codes.INVALID_TRANSACTION_TIMEOUT
    return error_codes.NONE


def _begin(
    transaction: Transaction | None, message: InitProducerIdRequest, decision: TransactionDecision
) -> Transaction | int:
    """The new state of the transactional id, or an error code."""
    if transaction is None:
        # That it says it had a producer id is no harm: what was known of that has expired.
        return _of_new_id(Transaction(NO_ID, NO_EPOCH, NO_ID), NO_EPOCH, message, decision)
    if transaction.is_prepared:
        return error_codes.CONCURRENT_TRANSACTIONS
    expected = message.producer_epoch if message.producer_id != NO_ID else None
    if expected is not None and not _is_known(message, transaction):
        return error_codes.PRODUCER_FENCED
    if transaction.state is TransactionState.ONGOING:
        # No client hears the epoch that fences, so the client's retry gets the next one.
        return fence(message.transactional_id or "", transaction, decision) or error_codes.CONCURRENT_TRANSACTIONS
    epoch = transaction.producer_epoch
    if transaction.is_exhausted:
        if expected is not None and expected != epoch:
            return error_codes.UNKNOWN_SERVER_ERROR
        return _of_new_id(transaction, NO_EPOCH if expected is None else epoch, message, decision)
    if expected is None:
        last_epoch, epoch = NO_EPOCH, epoch + 1
    elif expected == epoch:
        last_epoch, epoch = epoch, epoch + 1
    elif expected == transaction.last_producer_epoch:
        last_epoch = expected  # the answer was lost: it is given again
    else:
        return error_codes.PRODUCER_FENCED
    return transaction.empty(
        transaction.producer_id, epoch, last_epoch, message.transaction_timeout_ms, decision.timestamp_ms
    )


def _of_new_id(
    transaction: Transaction, last_epoch: int, message: InitProducerIdRequest, decision: TransactionDecision
) -> Transaction | int:
    producer_id = decision.take_producer_id()
    if producer_id == NO_ID:
        return error_codes.COORDINATOR_LOAD_IN_PROGRESS
    if transaction.producer_id == NO_ID:
        transaction = transaction._replace(producer_id=producer_id)
    return transaction.empty(producer_id, 0, last_epoch, message.transaction_timeout_ms, decision.timestamp_ms)


def _is_known(message: InitProducerIdRequest, transaction: Transaction) -> bool:
    """Whether the request's producer id is the current one, or the previous one whose epochs have run out."""
    if message.producer_id == transaction.producer_id:
        return True
    return message.producer_id == transaction.previous_producer_id and message.producer_epoch >= LAST_EPOCH
