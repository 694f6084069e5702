"""DescribeTopicPartitions: API key 75."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, uuid


@struct
class TopicRequest:
    name: string  # The topic name.


@struct
class DescribeTopicPartitionsRequestCursor:
    topic_name: string  # The name for the first topic to process.
    partition_index: i32  # The partition index to start with.


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest]  # The topics to fetch details for.
    response_partition_limit: i32 = field(default=2000)  # The maximum number of partitions included in the response.
    # The first topic and partition index to fetch details for.
    cursor: DescribeTopicPartitionsRequestCursor | None = field(default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: i16  # The partition error, or 0 if there was no error.
    partition_index: i32  # The partition index.
    leader_id: i32  # The ID of the leader broker.
    leader_epoch: i32 = field(default=-1)  # The leader epoch of this partition.
    replica_nodes: list[i32]  # The set of all nodes that host this partition.
    isr_nodes: list[i32]  # The set of nodes that are in sync with the leader for this partition.
    eligible_leader_replicas: list[i32] | None = field(default=None)  # The new eligible leader replicas otherwise.
    last_known_elr: list[i32] | None = field(default=None)  # The last known ELR.
    offline_replicas: list[i32]  # The set of offline replicas of this partition.


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: i16  # The topic error, or 0 if there was no error.
    name: string | None  # The topic name.
    topic_id: uuid  # The topic id.
    is_internal: bool = field(default=False)  # True if the topic is internal.
    partitions: list[DescribeTopicPartitionsResponsePartition]  # Each partition in the topic.
    # 32-bit bitfield to represent authorized operations for this topic.
    topic_authorized_operations: i32 = field(default=-0x8000_0000)


@struct
class DescribeTopicPartitionsResponseCursor:
    topic_name: string  # The name for the first topic to process.
    partition_index: i32  # The partition index to start with.


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[DescribeTopicPartitionsResponseTopic]  # Each topic in the response.
    # The next topic and partition index to fetch details for.
    next_cursor: DescribeTopicPartitionsResponseCursor | None = field(default=None)
