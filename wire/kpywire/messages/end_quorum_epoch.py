"""EndQuorumEpoch: API key 54."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, u16, uuid


@struct
class ReplicaInfo:
    candidate_id: i32  # The ID of the candidate replica.
    candidate_directory_id: uuid  # The directory ID of the candidate replica.


@struct
class EndQuorumEpochRequestPartitionData:
    partition_index: i32  # The partition index.
    leader_id: i32  # The current leader ID that is resigning.
    leader_epoch: i32  # The current epoch.
    # A sorted list of preferred successors to start the election.
    preferred_successors: list[i32] = field("0", default=[], ignorable=True)
    # A sorted list of preferred candidates to start the election.
    preferred_candidates: list[ReplicaInfo] = field("1+", default=[], ignorable=True)


@struct
class EndQuorumEpochRequestTopicData:
    topic_name: string  # The topic name.
    partitions: list[EndQuorumEpochRequestPartitionData]  # The partitions.


@struct
class LeaderEndpoint:
    name: string  # The name of the endpoint.
    host: string  # The node's hostname.
    port: u16  # The node's port.


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    """Version 1 adds flexible versions, replaces preferred successors with preferred candidates and adds leader
    endpoints (KIP-853)
    """

    cluster_id: string | None = field(default=None)  # The cluster id.
    topics: list[EndQuorumEpochRequestTopicData]  # The topics.
    leader_endpoints: list[LeaderEndpoint] = field("1+", default=[], ignorable=True)  # Endpoints for the leader.


@struct
class EndQuorumEpochResponsePartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The partition level error code.
    leader_id: i32  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32  # The latest known leader epoch.


@struct
class EndQuorumEpochResponseTopicData:
    topic_name: string  # The topic name.
    partitions: list[EndQuorumEpochResponsePartitionData]  # The partition data.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: u16  # The node's port.


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
    """Version 1 adds flexible versions and leader endpoint (KIP-853)"""

    error_code: i16  # The top level error code.
    topics: list[EndQuorumEpochResponseTopicData]  # The topic data.
    # Endpoints for all leaders enumerated in PartitionData.
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
