"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

- Topics in order of their names; no names means all of them. At most ``max.request.partition.size.limit`` partitions
  in one answer; the cursor says where the next one goes on. It must be at one of the topics asked for.
- Unlike Metadata it never creates a topic.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.metadata import TOPIC_OPERATIONS
from kpybroker.handlers.offline_replicas import offline_replicas
from kpybroker.metadata.topic import Topic
from kpybroker.metadata.topic_name import INTERNAL, reason_invalid
from kpywire import error_codes
from kpywire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kpywire.uuid import ZERO_UUID


def handle(broker: Context, request: DescribeTopicPartitionsRequest, _call: Call) -> DescribeTopicPartitionsResponse:
    """One page of topics."""
    image = broker.image
    every = not request.topics
    names = sorted(image.topics if every else {topic.name for topic in request.topics})
    first_index = 0
    cursor = request.cursor
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        at_cursor = names[:1] == [cursor.topic_name]
        if cursor.partition_index < 0 or not (every or at_cursor):
            return _refused(request)
        first_index = cursor.partition_index if at_cursor else 0
    left = min(max(request.response_partition_limit, 1), int(broker.config["max.request.partition.size.limit"]))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor = None
    for name in names:
        if left == 0:
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_unknown(name))
            continue
        answer, following = _page(broker, topic, first_index, left)
        first_index = 0
        topics.append(answer)
        left -= len(answer.partitions)
        if following is not None:
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=following)
            break
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=topics, next_cursor=next_cursor)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=0,
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=error_codes.INVALID_REQUEST, name=topic.name, topic_id=ZERO_UUID, partitions=[]
            )
            for topic in request.topics
        ],
    )


def _page(
    broker: Context, topic: Topic, first_index: int, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """At most ``limit`` partitions from ``first_index`` on, and the index at which the next page starts."""
    indexes = [index for index in sorted(topic.partitions) if index >= first_index]
    page = indexes[:limit]
    answer = DescribeTopicPartitionsResponseTopic(
        error_code=error_codes.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL,
        partitions=[_partition(broker, topic, index) for index in page],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    return answer, indexes[limit] if len(indexes) > limit else None


def _partition(broker: Context, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    partition = topic.partitions[index]
    alive = broker.alive_brokers
    leads = partition.leader in alive
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_codes.NONE if leads else error_codes.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if leads else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(broker, partition),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if reason_invalid(name) is not None:
        code = error_codes.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
