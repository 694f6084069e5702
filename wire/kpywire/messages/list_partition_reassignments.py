"""ListPartitionReassignments: API key 46."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@struct
class ListPartitionReassignmentsTopics:
    name: string  # The topic name.
    partition_indexes: list[i32]  # The partitions to list partition reassignments for.


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: i32 = field(default=60000)  # The time in ms to wait for the request to complete.
    # The topics to list partition reassignments for, or null to list everything.
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None)


@struct
class OngoingPartitionReassignment:
    partition_index: i32  # The index of the partition.
    replicas: list[i32]  # The current replica set.
    adding_replicas: list[i32]  # The set of replicas we are currently adding.
    removing_replicas: list[i32]  # The set of replicas we are currently removing.


@struct
class OngoingTopicReassignment:
    name: string  # The topic name.
    partitions: list[OngoingPartitionReassignment]  # The ongoing reassignments for each partition.


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top-level error code, or 0 if there was no error.
    error_message: string | None  # The top-level error message, or null if there was no error.
    topics: list[OngoingTopicReassignment]  # The ongoing reassignments for each topic.
