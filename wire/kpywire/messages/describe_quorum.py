"""DescribeQuorum: API key 55."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, u16, uuid
from kpywire.uuid import ZERO_UUID


@struct
class DescribeQuorumRequestPartitionData:
    partition_index: i32  # The partition index.


@struct
class DescribeQuorumRequestTopicData:
    topic_name: string  # The topic name.
    partitions: list[DescribeQuorumRequestPartitionData]  # The partitions to describe.


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """Version 1 adds additional fields in the response. The request is unchanged (KIP-836).
    Version 2 adds additional fields in the response. The request is unchanged (KIP-853).
    """

    topics: list[DescribeQuorumRequestTopicData]  # The topics to describe.


@struct
class ReplicaState:
    replica_id: i32  # The ID of the replica.
    replica_directory_id: uuid = field("2+", default=ZERO_UUID)  # The replica directory ID of the replica.
    log_end_offset: i64  # The last known log end offset of the follower or -1 if it is unknown.
    # The last known leader wall clock time time when a follower fetched from the leader. This is reported as -1 both
    # for the current leader or if it is unknown for a voter.
    last_fetch_timestamp: i64 = field("1+", default=-1, ignorable=True)
    # The leader wall clock append time of the offset for which the follower made the most recent fetch request. This is
    # reported as the current time for the leader and -1 if unknown for a voter.
    last_caught_up_timestamp: i64 = field("1+", default=-1, ignorable=True)


@struct
class DescribeQuorumResponsePartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The partition error code.
    # The error message, or null if there was no error.
    error_message: string | None = field("2+", default="", ignorable=True)
    leader_id: i32  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32  # The latest known leader epoch.
    high_watermark: i64  # The high water mark.
    current_voters: list[ReplicaState]  # The current voters of the partition.
    observers: list[ReplicaState]  # The observers of the partition.


@struct
class DescribeQuorumResponseTopicData:
    topic_name: string  # The topic name.
    partitions: list[DescribeQuorumResponsePartitionData]  # The partition data.


@struct
class Listener:
    name: string  # The name of the endpoint.
    host: string  # The hostname.
    port: u16  # The port.


@struct
class Node:
    node_id: i32  # The ID of the associated node.
    listeners: list[Listener]  # The listeners of this controller.


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """Version 1 adds LastFetchTimeStamp and LastCaughtUpTimestamp in ReplicaState (KIP-836).
    Version 2 adds ErrorMessage, Nodes, ErrorMessage in PartitionData, ReplicaDirectoryId in ReplicaState
    (KIP-853).
    """

    error_code: i16  # The top level error code.
    # The error message, or null if there was no error.
    error_message: string | None = field("2+", default="", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]  # The response from the describe quorum API.
    nodes: list[Node] = field("2+", default=[])  # The nodes in the quorum.
