"""Vote: API key 52."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, u16, uuid
from kpywire.uuid import ZERO_UUID


@struct
class VoteRequestPartitionData:
    partition_index: i32  # The partition index.
    replica_epoch: i32  # The epoch of the voter sending the request
    replica_id: i32  # The replica id of the voter sending the request
    # The directory id of the voter sending the request
    replica_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    # The directory id of the voter receiving the request
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    last_offset_epoch: i32  # The epoch of the last record written to the metadata log.
    last_offset: i64  # The log end offset of the metadata log of the voter sending the request.
    pre_vote: bool = field("2+", default=False)  # Whether the request is a PreVote request (not persisted) or not.


@struct
class VoteRequestTopicData:
    topic_name: string  # The topic name.
    partitions: list[VoteRequestPartitionData]  # The partition data.


@message(key=52, versions="0-2", flexible="0+")
class VoteRequest:
    """Version 1 adds voter key and directory id (KIP-853)
    Version 2 adds PreVote field and renames candidate to replica
    """

    cluster_id: string | None = field(default=None)  # The cluster id.
    voter_id: i32 = field("1+", default=-1, ignorable=True)  # The replica id of the voter receiving the request.
    topics: list[VoteRequestTopicData]  # The topic data.


@struct
class VoteResponsePartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The partition level error code.
    leader_id: i32  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32  # The latest known leader epoch.
    vote_granted: bool  # True if the vote was granted and false otherwise.


@struct
class VoteResponseTopicData:
    topic_name: string  # The topic name.
    partitions: list[VoteResponsePartitionData]  # The results for each partition.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: u16  # The node's port.


@message(key=52, versions="0-2", flexible="0+")
class VoteResponse:
    """Version 1 adds leader endpoint (KIP-853)
    Version 2 handles PreVote requests
    """

    error_code: i16  # The top level error code.
    topics: list[VoteResponseTopicData]  # The results for each topic.
    # Endpoints for all current-leaders enumerated in PartitionData.
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
