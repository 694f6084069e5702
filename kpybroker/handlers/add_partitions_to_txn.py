"""AddPartitionsToTxn (24), versions 0-5: partitions become part of a transaction, or are found in it.

- v0-3 come from clients, for one transaction. v4-5 come from leaders of partitions, for several transactions at once;
  partitions are added or only verified (KIP-890).
- A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION. The other partitions of its transaction are not added
  then: OPERATION_NOT_ATTEMPTED.
- v2: PRODUCER_FENCED; earlier versions INVALID_PRODUCER_EPOCH.
"""

from collections.abc import Generator, Iterable
from typing import Any, Final

from kpybroker.calls.call import Call
from kpybroker.calls.close_connection import CloseConnection
from kpybroker.calls.gathered import gathered
from kpybroker.calls.steps import each
from kpybroker.serving.context import Context
from kpybroker.serving.group_requests import coordinator_error
from kpybroker.serving.transaction_requests import transaction_request
from kpybroker.serving.transaction_verification import refused
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BATCHED_FROM: Final = 4
MOST_ANSWERED: Final = 100_000
"""The transactions, topics and partitions in one answer. Without a repeated transaction there are fewer."""


def handle(broker: Context, request: AddPartitionsToTxnRequest, call: Call) -> Any:
    """Ask the coordinator about each transaction."""
    if call.api_version >= BATCHED_FROM:
        return call.peer.share(_handle_several(broker, request, call))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return _add_one(broker, transaction, call)


def _add_one(broker: Context, transaction: AddPartitionsToTxnTransaction, call: Call) -> Any:
    """Handle the one transaction of a client's request."""
    call.client.in_transactions = True
    unknown = _unknown(broker, transaction)
    if unknown is not None:
        return _single(unknown)
    named_twice = _names_one_twice(transaction.topics)
    return broker.transactions.submit(
        transaction.transactional_id,
        transaction_request(broker, transaction, call.api_version),
        lambda code: _single(refused(transaction, coordinator_error(code))),
        answer=lambda result: _single(_as_asked(transaction, result) if named_twice else result),
    )


def _handle_several(broker: Context, request: AddPartitionsToTxnRequest, call: Call) -> Generator[None, None, Any]:
    """Handle the transactions of a broker's request. If an id is named twice, its last partitions count
    (``partitionsByTransaction``)."""
    topics = {transaction.transactional_id: transaction.topics for transaction in request.transactions}
    answered = 0
    for transaction in request.transactions:
        transaction.topics = topics[transaction.transactional_id]
        answered += 1 + sum(1 + len(topic.partitions) for topic in transaction.topics)
        if answered > MOST_ANSWERED:
            raise CloseConnection("a request that names one transaction again and again")
        yield
    answers = yield from each(request.transactions, lambda transaction: _add(broker, transaction, call))
    return gathered(answers, _batched)


def _add(broker: Context, transaction: AddPartitionsToTxnTransaction, call: Call) -> Any:
    if transaction.verify_only:
        transaction.topics = _each_once(transaction.topics)
    unknown = _unknown(broker, transaction)
    if unknown is not None:
        return unknown
    return broker.transactions.submit(
        transaction.transactional_id,
        transaction_request(broker, transaction, call.api_version),
        lambda code: refused(transaction, coordinator_error(code)),
        answer=None if transaction.verify_only else lambda result: _as_asked(transaction, result),
        writes=not transaction.verify_only,
    )


def _as_asked(transaction: AddPartitionsToTxnTransaction, result: AddPartitionsToTxnResult) -> AddPartitionsToTxnResult:
    """The error that all partitions share, for each partition in the request (``errorResponseForTransaction``)."""
    codes = [each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition]
    return refused(transaction, codes[0] if codes else error_codes.NONE)


def _each_once(topics: Iterable[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopic]:
    """The topics as in the map of Kafka's answer: each partition once, and no topic without partitions."""
    partitions: dict[str, dict[int, None]] = {}
    for topic in topics:
        for index in topic.partitions:
            partitions.setdefault(topic.name, {})[index] = None
    return [AddPartitionsToTxnTopic(name=name, partitions=list(indexes)) for name, indexes in partitions.items()]


def _names_one_twice(topics: Iterable[AddPartitionsToTxnTopic]) -> bool:
    """Whether a partition is named twice, or a topic twice or without partitions. The answer then has another form."""
    names: set[str] = set()
    for topic in topics:
        if topic.name in names or not topic.partitions or len(set(topic.partitions)) < len(topic.partitions):
            return True
        names.add(topic.name)
    return False


def _unknown(broker: Context, transaction: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult | None:
    """The answer for a transaction with partitions that do not exist; None if all exist."""
    image_topics = broker.image.topics
    for topic in transaction.topics:
        known = image_topics.get(topic.name)
        if not topic.partitions:
            continue
        if known is None or not all(index in known.partitions for index in topic.partitions):
            break
    else:
        return None
    topics = []
    for topic in _each_once(transaction.topics):
        known = image_topics.get(topic.name)
        results = []
        for index in topic.partitions:
            code = error_codes.OPERATION_NOT_ATTEMPTED
            if known is None or index not in known.partitions:
                code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
            results.append(AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code))
        topics.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results))
    return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)


def _batched(results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        results_by_transaction=results,
        results_by_topic_v3_and_below=[],
    )


def _single(result: AddPartitionsToTxnResult) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        results_by_transaction=[],
        results_by_topic_v3_and_below=result.topic_results,
    )
