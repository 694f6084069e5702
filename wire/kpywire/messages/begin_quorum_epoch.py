"""BeginQuorumEpoch: API key 53."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, u16, uuid
from kpywire.uuid import ZERO_UUID


@struct
class BeginQuorumEpochRequestPartitionData:
    partition_index: i32  # The partition index.
    # The directory id of the receiving replica.
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    leader_id: i32  # The ID of the newly elected leader.
    leader_epoch: i32  # The epoch of the newly elected leader.


@struct
class BeginQuorumEpochRequestTopicData:
    topic_name: string  # The topic name.
    partitions: list[BeginQuorumEpochRequestPartitionData]  # The partitions.


@struct
class LeaderEndpoint:
    name: string  # The name of the endpoint.
    host: string  # The node's hostname.
    port: u16  # The node's port.


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    """Version 1 adds flexible versions, voter key and leader endpoints (KIP-853)"""

    cluster_id: string | None = field(default=None)  # The cluster id.
    voter_id: i32 = field("1+", default=-1, ignorable=True)  # The replica id of the voter receiving the request.
    topics: list[BeginQuorumEpochRequestTopicData]  # The topics.
    leader_endpoints: list[LeaderEndpoint] = field("1+", default=[], ignorable=True)  # Endpoints for the leader.


@struct
class BeginQuorumEpochResponsePartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code for this partition.
    leader_id: i32  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32  # The latest known leader epoch.


@struct
class BeginQuorumEpochResponseTopicData:
    topic_name: string  # The topic name.
    partitions: list[BeginQuorumEpochResponsePartitionData]  # The partition data.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: u16  # The node's port.


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    """Version 1 adds flexible versions and leader endpoint (KIP-853)"""

    error_code: i16  # The top level error code.
    topics: list[BeginQuorumEpochResponseTopicData]  # The topic data.
    # Endpoints for all leaders enumerated in PartitionData.
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
