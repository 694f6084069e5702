"""ShareFetch: API key 78."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, record_batches, string, struct, uuid


@struct
class AcknowledgementBatch:
    first_offset: i64  # First offset of batch of records to acknowledge.
    last_offset: i64  # Last offset (inclusive) of batch of records to acknowledge.
    acknowledge_types: list[i8]  # Array of acknowledge types - 0:Gap,1:Accept,2:Release,3:Reject,4:Renew.


@struct
class FetchPartition:
    partition_index: i32  # The partition index.
    # The maximum bytes to fetch from this partition. 0 when only acknowledgement with no fetching is required. See
    # KIP-74 for cases where this limit may not be honored.
    partition_max_bytes: i32 = field("0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch]  # Record batches to acknowledge.


@struct
class FetchTopic:
    topic_id: uuid  # The unique topic ID.
    partitions: list[FetchPartition]  # The partitions to fetch.


@struct
class ForgottenTopic:
    topic_id: uuid  # The unique topic ID.
    partitions: list[i32]  # The partitions indexes to forget.


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    """Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
    Version 1 is the initial stable version (KIP-932).
    Version 2 introduces ShareAcquireMode and Renew acknowledgements (KIP-1206 and KIP-1222).
    """

    group_id: string | None = field(default=None)  # The group identifier.
    member_id: string | None  # The member ID.
    # The current share session epoch: 0 to open a share session; -1 to close it; otherwise increments for consecutive
    # requests.
    share_session_epoch: i32
    max_wait_ms: i32  # The maximum time in milliseconds to wait for the response.
    min_bytes: i32  # The minimum bytes to accumulate in the response.
    # The maximum bytes to fetch. See KIP-74 for cases where this limit may not be honored.
    max_bytes: i32 = field(default=0x7FFF_FFFF)
    # The maximum number of records to fetch. This limit can be exceeded for alignment of batch boundaries.
    max_records: i32
    batch_size: i32  # The optimal number of records for batches of acquired records and acknowledgements.
    # The acquire mode to control the fetch behavior - 0:batch-optimized,1:record-limit.
    share_acquire_mode: i8 = field("2+", default=0, ignorable=True)
    # Whether Renew type acknowledgements present in AcknowledgementBatches.
    is_renew_ack: bool = field("2+", default=False)
    topics: list[FetchTopic]  # The topics to fetch.
    forgotten_topics_data: list[ForgottenTopic]  # The partitions to remove from this share session.


@struct
class LeaderIdAndEpoch:
    leader_id: i32  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32  # The latest known leader epoch.


@struct
class AcquiredRecords:
    first_offset: i64  # The earliest offset in this batch of acquired records.
    last_offset: i64  # The last offset of this batch of acquired records.
    delivery_count: i16  # The delivery count of this batch of acquired records.


@struct
class PartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The fetch error code, or 0 if there was no fetch error.
    error_message: string | None = field(default=None)  # The fetch error message, or null if there was no fetch error.
    acknowledge_error_code: i16  # The acknowledge error code, or 0 if there was no acknowledge error.
    # The acknowledge error message, or null if there was no acknowledge error.
    acknowledge_error_message: string | None = field(default=None)
    current_leader: LeaderIdAndEpoch  # The current leader of the partition.
    records: record_batches  # The record data.
    acquired_records: list[AcquiredRecords]  # The acquired records.


@struct
class ShareFetchableTopicResponse:
    topic_id: uuid  # The unique topic ID.
    partitions: list[PartitionData]  # The topic partitions.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: i32  # The node's port.
    rack: string | None = field(default=None)  # The rack of the node, or null if it has not been assigned to a rack.


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    """Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
    Version 1 is the initial stable version (KIP-932).
    Version 2 introduces ShareAcquireMode and Renew acknowledgements (KIP-1206 and KIP-1222).
    Supported errors for ErrorCode and AcknowledgeErrorCode:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 0+)
    - SHARE_SESSION_NOT_FOUND (version 0+)
    - INVALID_SHARE_SESSION_EPOCH (version 0+)
    - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
    - NOT_LEADER_OR_FOLLOWER (version 0+)
    - UNKNOWN_TOPIC_ID (version 0+)
    - INVALID_RECORD_STATE (version 0+) - only for AcknowledgeErrorCode
    - KAFKA_STORAGE_ERROR (version 0+)
    - CORRUPT_MESSAGE (version 0+)
    - INVALID_REQUEST (version 0+)
    - UNKNOWN_SERVER_ERROR (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top-level response error code.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
    acquisition_lock_timeout_ms: i32  # The time in milliseconds for which the acquired records are locked.
    responses: list[ShareFetchableTopicResponse]  # The response topics.
    # Endpoints for all current leaders enumerated in PartitionData with error NOT_LEADER_OR_FOLLOWER.
    node_endpoints: list[NodeEndpoint]
