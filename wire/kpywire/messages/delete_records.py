"""DeleteRecords: API key 21."""

from __future__ import annotations

from kpywire.schema import i16, i32, i64, message, string, struct


@struct
class DeleteRecordsPartition:
    partition_index: i32  # The partition index.
    offset: i64  # The deletion offset. -1 means that records should be truncated to the high watermark.


@struct
class DeleteRecordsTopic:
    name: string  # The topic name.
    partitions: list[DeleteRecordsPartition]  # Each partition that we want to delete records from.


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Version 2 is the first flexible version."""

    topics: list[DeleteRecordsTopic]  # Each topic that we want to delete records from.
    timeout_ms: i32  # How long to wait for the deletion to complete, in milliseconds.


@struct
class DeleteRecordsPartitionResult:
    partition_index: i32  # The partition index.
    low_watermark: i64  # The partition low water mark.
    error_code: i16  # The deletion error code, or 0 if the deletion succeeded.


@struct
class DeleteRecordsTopicResult:
    name: string  # The topic name.
    partitions: list[DeleteRecordsPartitionResult]  # Each partition that we wanted to delete records from.


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 is the first flexible version.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[DeleteRecordsTopicResult]  # Each topic that we wanted to delete records from.
