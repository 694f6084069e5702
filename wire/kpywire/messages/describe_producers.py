"""DescribeProducers: API key 61."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class TopicRequest:
    name: string  # The topic name.
    partition_indexes: list[i32]  # The indexes of the partitions to list producers for.


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest]  # The topics to list producers for.


@struct
class ProducerState:
    producer_id: i64  # The producer id.
    producer_epoch: i32  # The producer epoch.
    last_sequence: i32 = field(default=-1)  # The last sequence number sent by the producer.
    last_timestamp: i64 = field(default=-1)  # The last timestamp sent by the producer.
    coordinator_epoch: i32  # The current epoch of the producer group.
    current_txn_start_offset: i64 = field(default=-1)  # The current transaction start offset of the producer.


@struct
class PartitionResponse:
    partition_index: i32  # The partition index.
    error_code: i16  # The partition error code, or 0 if there was no error.
    # The partition error message, which may be null if no additional details are available.
    error_message: string | None = field(default=None)
    active_producers: list[ProducerState]  # The active producers for the partition.


@struct
class TopicResponse:
    name: string  # The topic name.
    partitions: list[PartitionResponse]  # Each partition in the response.


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[TopicResponse]  # Each topic in the response.
