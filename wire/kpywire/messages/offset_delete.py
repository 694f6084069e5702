"""OffsetDelete: API key 47."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: i32  # The partition index.


@struct
class OffsetDeleteRequestTopic:
    name: string  # The topic name.
    partitions: list[OffsetDeleteRequestPartition]  # Each partition to delete offsets for.


@message(key=47, versions="0")
class OffsetDeleteRequest:
    group_id: string  # The unique group identifier.
    topics: list[OffsetDeleteRequestTopic]  # The topics to delete offsets for.


@struct
class OffsetDeleteResponsePartition:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.


@struct
class OffsetDeleteResponseTopic:
    name: string  # The topic name.
    partitions: list[OffsetDeleteResponsePartition]  # The responses for each partition in the topic.


@message(key=47, versions="0")
class OffsetDeleteResponse:
    error_code: i16  # The top-level error code, or 0 if there was no error.
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[OffsetDeleteResponseTopic]  # The responses for each topic.
