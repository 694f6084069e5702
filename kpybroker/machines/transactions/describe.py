"""DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152): how transactions appear to clients."""

from kpybroker.machines.coordination.pattern import whole_match
from kpybroker.machines.re2_patterns import InvalidPattern
from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.events import DescribeTransaction, ListTransactions
from kpybroker.machines.transactions.shard import TransactionShard
from kpybroker.machines.transactions.transaction import STATE_NAMES, Transaction
from kpywire import error_codes
from kpywire.messages.describe_transactions import TopicData, TransactionState
from kpywire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kpywire.messages.list_transactions import TransactionState as ListedTransaction

_STATES = {name: state for state, name in STATE_NAMES.items()}


def describe_transaction(shard: TransactionShard, event: DescribeTransaction, decision: TransactionDecision) -> None:
    """Describe a transactional id. For a prepared transaction it lists the partitions that still need its marker."""
    transactional_id = event.transactional_id
    transaction = shard.transactions.get(transactional_id)
    if not transactional_id:
        described = undescribed(transactional_id, error_codes.INVALID_REQUEST)
    elif transaction is None:
        described = undescribed(transactional_id, error_codes.TRANSACTIONAL_ID_NOT_FOUND)
    else:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(shard.unmarked.get(transactional_id, transaction.partitions)):
            topics.setdefault(topic, []).append(partition)
        described = TransactionState(
            error_code=error_codes.NONE,
            transactional_id=transactional_id,
            transaction_state=STATE_NAMES[transaction.state],
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
        )
    decision.reply(event.ticket, described)


def list_transactions(shard: TransactionShard, event: ListTransactions, decision: TransactionDecision) -> None:
    """List the transactions that pass every filter. State names have to match exactly; unknown names are reported, and
    match nothing."""
    message: ListTransactionsRequest = event.message
    try:
        pattern = message.transactional_id_pattern
        matches = whole_match(pattern) if pattern else None
    except InvalidPattern:
        decision.reply(event.ticket, listing(error_codes.INVALID_REGULAR_EXPRESSION, [], []))
        return
    states = {_STATES[name] for name in message.state_filters if name in _STATES}
    producer_ids = frozenset(message.producer_id_filters)
    started_before_ms = event.timestamp_ms - message.duration_filter

    def passes(transactional_id: str, transaction: Transaction) -> bool:
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        if message.state_filters and transaction.state not in states:
            return False
        if message.duration_filter >= 0 and transaction.start_ms >= started_before_ms:
            return False
        return matches is None or matches(transactional_id)

    found = [
        ListedTransaction(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=STATE_NAMES[transaction.state],
        )
        for transactional_id, transaction in shard.transactions.items()
        if passes(transactional_id, transaction)
    ]
    unknown = [name for name in dict.fromkeys(message.state_filters) if name not in _STATES]
    decision.reply(event.ticket, listing(error_codes.NONE, unknown, found))


def listing(error_code: int, unknown: list[str], found: list[ListedTransaction]) -> ListTransactionsResponse:
    """Make the response to a ListTransactions."""
    return ListTransactionsResponse(
        throttle_time_ms=0, error_code=error_code, unknown_state_filters=unknown, transaction_states=found
    )


def undescribed(transactional_id: str, error_code: int) -> TransactionState:
    """Make the response about a transactional id for which only this error is known."""
    return TransactionState(
        error_code=error_code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
