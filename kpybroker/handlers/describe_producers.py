"""DescribeProducers (61), version 0: the idempotent producers that a partition's leader remembers (KIP-664).

- A topic that is not there has Kafka's message beside the error; a partition that is not there has none.
"""

from collections.abc import Iterator

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.metadata.topic_name import reason_invalid
from kpystorage.errors import DiskFailure
from kpywire import error_codes
from kpywire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

MOST_PRODUCERS = 200_000
"""In one answer, besides those of its last partition. A short request that names one partition again and again could
ask for gigabytes."""


def handle(broker: Context, request: DescribeProducersRequest, _call: Call) -> DescribeProducersResponse:
    """Answer each partition."""
    answers = _answers(broker, request)
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            TopicResponse(name=topic.name, partitions=[next(answers) for _ in topic.partition_indexes])
            for topic in request.topics
        ],
    )


def _answers(broker: Context, request: DescribeProducersRequest) -> Iterator[PartitionResponse]:
    room = MOST_PRODUCERS
    for topic in request.topics:
        for index in topic.partition_indexes:
            if room <= 0:
                message = f"A request may not ask for more than {MOST_PRODUCERS} producers"
                yield _refused(index, error_codes.INVALID_REQUEST, message)
                continue
            answer = _describe(broker, topic.name, index)
            room -= len(answer.active_producers)
            yield answer


def _describe(broker: Context, topic: str, index: int) -> PartitionResponse:
    try:
        _check_topic(broker, topic)
        producers = broker.replicas.find(topic, index).led().log.producers
    except KafkaError as error:
        return _refused(index, error.code, error.message)
    except DiskFailure as failure:
        broker.replicas.directory_failed(failure)
        return _refused(index, error_codes.KAFKA_STORAGE_ERROR, None)
    return PartitionResponse(
        partition_index=index,
        error_code=error_codes.NONE,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_first_offset,
            )
            for entry in producers.snapshot()
        ],
    )


def _check_topic(broker: Context, topic: str) -> None:
    invalid = reason_invalid(topic)
    if invalid is not None:
        raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, invalid)
    if topic not in broker.image.topics:
        code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(code, error_codes.message(code))


def _refused(index: int, code: int, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=[])
