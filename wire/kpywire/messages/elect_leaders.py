"""ElectLeaders: API key 43."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@struct
class TopicPartitions:
    topic: string  # The name of a topic.
    partitions: list[i32]  # The partitions of this topic whose leader should be elected.


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Version 1 implements multiple leader election types, as described by KIP-460.
    Version 2 is the first flexible version.
    """

    # Type of elections to conduct for the partition. A value of '0' elects the preferred replica. A value of '1' elects
    # the first live replica if there are no in-sync replica.
    election_type: i8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None  # The topic partitions to elect leaders.
    timeout_ms: i32 = field(default=60000)  # The time in ms to wait for the election to complete.


@struct
class PartitionResult:
    partition_id: i32  # The partition id.
    error_code: i16  # The result error, or zero if there was no error.
    error_message: string | None  # The result message, or null if there was no error.


@struct
class ReplicaElectionResult:
    topic: string  # The topic name.
    partition_result: list[PartitionResult]  # The results for each partition.


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """Version 1 adds a top-level error code.
    Version 2 is the first flexible version.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16 = field("1+", default=0)  # The top level response error code.
    # The election results, or an empty array if the requester did not have permission and the request asks for all
    # partitions.
    replica_election_results: list[ReplicaElectionResult]
