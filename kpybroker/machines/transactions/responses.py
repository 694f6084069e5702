"""Responses in the form of each request version (Kafka: ``KafkaApis``)."""

from collections.abc import Iterable
from typing import Final

from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.events import Partition, TransactionRequest
from kpybroker.machines.transactions.transaction import NO_EPOCH, NO_ID, Transaction
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kpywire.messages.end_txn import EndTxnResponse
from kpywire.messages.init_producer_id import InitProducerIdResponse

_KNOW_FENCED: Final = {"InitProducerIdRequest": 4}
"""The first version of a request that knows PRODUCER_FENCED, where it is not 2. Before it, the error is
INVALID_PRODUCER_EPOCH."""


def error_for(message: object, error_code: int, api_version: int) -> int:
    """Return the error code that this version of the request uses."""
    if error_code == error_codes.PRODUCER_FENCED and api_version < _KNOW_FENCED.get(type(message).__name__, 2):
        return error_codes.INVALID_PRODUCER_EPOCH
    return error_code


def answer_with_producer(
    response: type[EndTxnResponse] | type[InitProducerIdResponse],
    request: TransactionRequest,
    decided: Transaction | int,
    decision: TransactionDecision,
) -> None:
    """Answer with the producer's new id and epoch, or with an error."""
    if isinstance(decided, Transaction):
        error_code, producer_id, producer_epoch = error_codes.NONE, decided.producer_id, decided.producer_epoch
    else:
        error_code = error_for(request.message, decided, request.api_version)
        producer_id, producer_epoch = NO_ID, NO_EPOCH
    message = response(
        throttle_time_ms=0, error_code=error_code, producer_id=producer_id, producer_epoch=producer_epoch
    )
    decision.reply(request.ticket, message)


def partition_results(transactional_id: str, errors: Iterable[tuple[Partition, int]]) -> AddPartitionsToTxnResult:
    """Make the response to an AddPartitionsToTxn, with the topics in their order."""
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), error_code in errors:
        result = AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=error_code)
        topics.setdefault(topic, []).append(result)
    return AddPartitionsToTxnResult(
        transactional_id=transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results) for topic, results in topics.items()
        ],
    )
