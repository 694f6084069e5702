"""DescribeShareGroupOffsets: API key 90."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, uuid


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: string  # The topic name.
    partitions: list[i32]  # The partitions.


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: string  # The group identifier.
    # The topics to describe offsets for, or null for all topic-partitions.
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    """Version 0 is the initial version (KIP-932).
    Version 1 introduces Lag in the response (KIP-1226).
    """

    groups: list[DescribeShareGroupOffsetsRequestGroup]  # The groups to describe offsets for.


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: i32  # The partition index.
    start_offset: i64  # The share-partition start offset.
    leader_epoch: i32  # The leader epoch of the partition.
    lag: i64 = field("1+", default=-1, ignorable=True)  # The share-partition lag.
    error_code: i16  # The partition-level error code, or 0 if there was no error.
    # The partition-level error message, or null if there was no error.
    error_message: string | None = field(default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: string  # The topic name.
    topic_id: uuid  # The unique topic ID.
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: string  # The group identifier.
    topics: list[DescribeShareGroupOffsetsResponseTopic]  # The results for each topic.
    error_code: i16  # The group-level error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The group-level error message, or null if there was no error.


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    """Version 0 is the initial version (KIP-932).
    Version 1 introduces Lag (KIP-1226).
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - INVALID_REQUEST (version 0+)
    - UNKNOWN_SERVER_ERROR (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    groups: list[DescribeShareGroupOffsetsResponseGroup]  # The results for each group.
