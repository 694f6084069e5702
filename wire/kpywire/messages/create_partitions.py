"""CreatePartitions: API key 37."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[i32]  # The assigned broker IDs.


@struct
class CreatePartitionsTopic:
    name: string  # The topic name.
    count: i32  # The new partition count.
    assignments: list[CreatePartitionsAssignment] | None  # The new partition assignments.


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Version 2 adds flexible version support
    Version 3 is identical to version 2 but may return a THROTTLING_QUOTA_EXCEEDED error in the response if the
    partitions creation is throttled (KIP-599).
    """

    topics: list[CreatePartitionsTopic]  # Each topic that we want to create new partitions inside.
    timeout_ms: i32  # The time in ms to wait for the partitions to be created.
    validate_only: bool  # If true, then validate the request, but don't actually increase the number of partitions.


@struct
class CreatePartitionsTopicResult:
    name: string  # The topic name.
    error_code: i16  # The result error, or zero if there was no error.
    error_message: string | None = field(default=None)  # The result message, or null if there was no error.


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 adds flexible version support
    Version 3 is identical to version 2 but may return a THROTTLING_QUOTA_EXCEEDED error in the response if the
    partitions creation is throttled (KIP-599).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    results: list[CreatePartitionsTopicResult]  # The partition creation results for each topic.
