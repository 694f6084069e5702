"""Responses as the versions of the requests want them (Kafka: ``KafkaApis``)."""

from collections.abc import Iterable

from kpybroker.transactions.events import Partition
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

_KNOW_FENCED = {"InitProducerIdRequest": 4}
"""From which version on requests know PRODUCER_FENCED, where that is not 2; before it is INVALID_PRODUCER_EPOCH."""


def error_for(message: object, error_code: int, api_version: int) -> int:
    """The error as this version of the request knows it."""
    if error_code == error_codes.PRODUCER_FENCED and api_version < _KNOW_FENCED.get(type(message).__name__, 2):
        return error_codes.INVALID_PRODUCER_EPOCH
    return error_code


def partition_results(transactional_id: str, errors: Iterable[tuple[Partition, int]]) -> AddPartitionsToTxnResult:
    """The answer to an AddPartitionsToTxn, topics in their order."""
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
