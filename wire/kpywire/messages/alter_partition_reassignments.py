"""AlterPartitionReassignments: API key 45."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@struct
class ReassignablePartition:
    partition_index: i32  # The partition index.
    # The replicas to place the partitions on, or null to cancel a pending reassignment for this partition.
    replicas: list[i32] | None = field(default=None)


@struct
class ReassignableTopic:
    name: string  # The topic name.
    partitions: list[ReassignablePartition]  # The partitions to reassign.


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Version 1 adds the ability to allow/disallow changing the replication factor as part of the request."""

    timeout_ms: i32 = field(default=60000)  # The time in ms to wait for the request to complete.
    # The option indicating whether changing the replication factor of any given partition as part of this request is a
    # valid move.
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[ReassignableTopic]  # The topics to reassign.


@struct
class ReassignablePartitionResponse:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code for this partition, or 0 if there was no error.
    error_message: string | None  # The error message for this partition, or null if there was no error.


@struct
class ReassignableTopicResponse:
    name: string  # The topic name.
    partitions: list[ReassignablePartitionResponse]  # The responses to partitions to reassign.


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """Version 1 adds the ability to allow/disallow changing the replication factor as part of the request."""

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    # The option indicating whether changing the replication factor of any given partition as part of the request was
    # allowed.
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: i16  # The top-level error code, or 0 if there was no error.
    error_message: string | None  # The top-level error message, or null if there was no error.
    responses: list[ReassignableTopicResponse]  # The responses to topics to reassign.
