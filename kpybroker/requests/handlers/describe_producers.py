"""DescribeProducers (61), version 0: the idempotent producers that a partition's leader remembers (KIP-664).

- The error for an unknown topic has Kafka's message; the one for an unknown partition has none.
"""

from collections.abc import Generator, Iterator

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.metadata.topic_name import reason_invalid
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.led_partitions import ask_leader
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import each
from kpystorage.producer_snapshot import SnapshotEntry
from kpywire import error_codes
from kpywire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

MOST_PRODUCERS = 200_000
"""The most producers in one answer; only its last partition may exceed that. Without a limit, a short request that
names one partition again and again could ask for gigabytes."""


def handle(
    broker: Context, request: DescribeProducersRequest, _call: Call
) -> Generator[None, None, DescribeProducersResponse]:
    """Answer each partition."""
    answers = _answers(broker, request)
    topics = []
    for topic in request.topics:
        partitions = yield from each(topic.partition_indexes, lambda _index: next(answers))
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
        yield
    return DescribeProducersResponse(throttle_time_ms=0, topics=topics)


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
    def describe(_replica: Replica, leader: PartitionLeader) -> PartitionResponse:
        states = leader.log.producers.snapshot()
        return PartitionResponse(
            partition_index=index, error_code=error_codes.NONE, active_producers=[_producer(state) for state in states]
        )

    def refuse(code: int, message: str | None) -> PartitionResponse:
        return _refused(index, code, message)

    invalid = reason_invalid(topic)
    if invalid is not None:
        return refuse(error_codes.INVALID_TOPIC_EXCEPTION, invalid)
    if topic not in broker.image.topics:
        code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
        return refuse(code, error_codes.message(code))
    return ask_leader(broker, topic, index, describe, refuse)


def _producer(state: SnapshotEntry) -> ProducerState:
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.transaction_first_offset,
    )


def _refused(index: int, code: int, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=[])
