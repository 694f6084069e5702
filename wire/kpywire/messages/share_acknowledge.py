"""ShareAcknowledge: API key 79."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct, uuid


@struct
class AcknowledgementBatch:
    first_offset: i64  # First offset of batch of records to acknowledge.
    last_offset: i64  # Last offset (inclusive) of batch of records to acknowledge.
    acknowledge_types: list[i8]  # Array of acknowledge types - 0:Gap,1:Accept,2:Release,3:Reject,4:Renew.


@struct
class AcknowledgePartition:
    partition_index: i32  # The partition index.
    acknowledgement_batches: list[AcknowledgementBatch]  # Record batches to acknowledge.


@struct
class AcknowledgeTopic:
    topic_id: uuid  # The unique topic ID.
    partitions: list[AcknowledgePartition]  # The partitions containing records to acknowledge.


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
    Version 1 is the initial stable version (KIP-932).
    Version 2 introduces Renew acknowledgements (KIP-1222).
    """

    group_id: string | None = field(default=None)  # The group identifier.
    member_id: string | None  # The member ID.
    # The current share session epoch: 0 to open a share session; -1 to close it; otherwise increments for consecutive
    # requests.
    share_session_epoch: i32
    # Whether Renew type acknowledgements present in AcknowledgementBatches.
    is_renew_ack: bool = field("2+", default=False)
    topics: list[AcknowledgeTopic]  # The topics containing records to acknowledge.


@struct
class LeaderIdAndEpoch:
    leader_id: i32  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32  # The latest known leader epoch.


@struct
class PartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The error message, or null if there was no error.
    current_leader: LeaderIdAndEpoch  # The current leader of the partition.


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: uuid  # The unique topic ID.
    partitions: list[PartitionData]  # The topic partitions.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: i32  # The node's port.
    rack: string | None = field(default=None)  # The rack of the node, or null if it has not been assigned to a rack.


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
    Version 1 is the initial stable version (KIP-932).
    Version 2 introduces Renew acknowledgements (KIP-1222).
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 0+)
    - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
    - SHARE_SESSION_NOT_FOUND (version 0+)
    - INVALID_SHARE_SESSION_EPOCH (version 0+)
    - NOT_LEADER_OR_FOLLOWER (version 0+)
    - UNKNOWN_TOPIC_ID (version 0+)
    - INVALID_RECORD_STATE (version 0+)
    - KAFKA_STORAGE_ERROR (version 0+)
    - INVALID_REQUEST (version 0+)
    - UNKNOWN_SERVER_ERROR (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top level response error code.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
    # The time in milliseconds for which the acquired records are locked.
    acquisition_lock_timeout_ms: i32 = field("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]  # The response topics.
    # Endpoints for all current leaders enumerated in PartitionData with error NOT_LEADER_OR_FOLLOWER.
    node_endpoints: list[NodeEndpoint]
