"""AddPartitionsToTxn (24), versions 0-5: partitions become part of a transaction, or are found in it.

- v0-3 come from clients, for one transaction. v4-5 come from leaders of partitions, for several transactions at once;
  partitions are added or only verified (KIP-890).
- A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION. The other partitions of its transaction are not added
  then: OPERATION_NOT_ATTEMPTED.
- v2: PRODUCER_FENCED; earlier versions INVALID_PRODUCER_EPOCH.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final

from kpybroker.machines.coordination.decision import Alike
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.transactions.partitions import names_many
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.requests.serving.transaction_requests import transaction_request
from kpybroker.requests.serving.transaction_verification import refused
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.scattered import Scattered
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, Work, all_there, each
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
    return _add_one(broker, _of_client(request), call)


def handle_in_steps(broker: Context, request: AddPartitionsToTxnRequest, call: Call) -> Work:
    """Like `handle`, for a large request."""
    if call.api_version >= BATCHED_FROM:
        return (yield from _handle_several(broker, request, call))
    transaction = _of_client(request)
    if not names_many(transaction):
        return _add_one(broker, transaction, call)
    call.client.in_transactions = True
    return _single((yield from _add_many(broker, transaction, call)))


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


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


def _handle_several(broker: Context, request: AddPartitionsToTxnRequest, call: Call) -> Work:
    """Handle the transactions of a broker's request. If an id is named twice, its last partitions count
    (``partitionsByTransaction``)."""
    topics: Scattered[str, list[AddPartitionsToTxnTopic]] = Scattered()
    for nth, transaction in enumerate(request.transactions, 1):
        if nth % STEP_ELEMENTS == 0:
            yield None
        topics[transaction.transactional_id] = transaction.topics
    answered = 0
    for transaction in request.transactions:
        transaction.topics = topics[transaction.transactional_id]
        answered += 1 + sum(1 + len(topic.partitions) for topic in transaction.topics)
        if answered > MOST_ANSWERED:
            raise CloseConnection("a request that names one transaction again and again")
        yield None
    answers: list[Any] = []
    for transaction in request.transactions:
        if names_many(transaction):
            answers.append((yield from _add_many(broker, transaction, call)))
        else:
            answers.append(_add(broker, transaction, call))
        yield None
    return _batched((yield from all_there(answers)))


def _add_many(broker: Context, transaction: AddPartitionsToTxnTransaction, call: Call) -> Work:
    """The result of a transaction with many partitions, in steps."""
    asked, image_topics, walked = transaction.topics, broker.image.topics, 0
    once: dict[str, dict[int, None]] = {}
    all_exist = True
    for topic in asked:
        known = image_topics.get(topic.name)
        for index in topic.partitions:
            walked += 1
            if walked % STEP_ELEMENTS == 0:
                yield None
            once.setdefault(topic.name, {})[index] = None
            all_exist = all_exist and known is not None and index in known.partitions
    each_once = yield from each(
        once.items(), lambda item: AddPartitionsToTxnTopic(name=item[0], partitions=list(item[1])), STEP_ELEMENTS
    )
    if not all_exist:
        absent = partial(_is_absent, image_topics)
        codes = error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.OPERATION_NOT_ATTEMPTED
        return (yield from _divided(transaction.transactional_id, each_once, absent, codes))
    if transaction.verify_only:
        asked = transaction.topics = each_once
    found = broker.transactions.submit(
        transaction.transactional_id,
        transaction_request(broker, transaction, call.api_version),
        lambda code: Alike(coordinator_error(code)),
        writes=not transaction.verify_only,
    )
    if isinstance(found, Pending):
        found = yield found
    if isinstance(found, Alike):
        codes = found.error_code, found.error_code
        return (yield from _divided(transaction.transactional_id, asked, lambda _name, _index: True, codes))
    codes = error_codes.NONE, error_codes.TRANSACTION_ABORTABLE
    is_in = lambda name, index: (name, index) in found  # noqa: E731
    return (yield from _divided(transaction.transactional_id, asked, is_in, codes))


def _is_absent(topics: Mapping[str, Topic], name: str, index: int) -> bool:
    known = topics.get(name)
    return known is None or index not in known.partitions


def _divided(
    transactional_id: str,
    topics: Iterable[AddPartitionsToTxnTopic],
    is_first: Callable[[str, int], bool],
    codes: tuple[int, int],
) -> Generator[None, None, AddPartitionsToTxnResult]:
    """Return the result with the first code for some partitions and the second one for the others, in steps."""
    first, second = codes
    results: list[AddPartitionsToTxnTopicResult] = []
    walked = 0
    for topic in topics:
        partitions: list[AddPartitionsToTxnPartitionResult] = []
        for index in topic.partitions:
            walked += 1
            if walked % STEP_ELEMENTS == 0:
                yield
            code = first if is_first(topic.name, index) else second
            partitions.append(AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code))
        walked += 1
        if walked % STEP_ELEMENTS == 0:
            yield
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
    return AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=results)


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
