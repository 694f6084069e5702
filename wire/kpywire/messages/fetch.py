"""Fetch: API key 1."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, record_batches, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class ReplicaState:
    replica_id: i32 = field(default=-1)  # The replica ID of the follower, or -1 if this request is from a consumer.
    replica_epoch: i64 = field(default=-1)  # The epoch of this follower, or -1 if not available.


@struct
class FetchPartition:
    partition: i32  # The partition index.
    current_leader_epoch: i32 = field("9+", default=-1, ignorable=True)  # The current leader epoch of the partition.
    fetch_offset: i64  # The message offset.
    last_fetched_epoch: i32 = field("12+", default=-1)  # The epoch of the last fetched record or -1 if there is none.
    # The earliest available offset of the follower replica. The field is only used when the request is sent by the
    # follower.
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)
    # The maximum bytes to fetch from this partition. See KIP-74 for cases where this limit may not be honored.
    partition_max_bytes: i32
    # The directory id of the follower fetching.
    replica_directory_id: uuid = field("17+", tag=0, default=ZERO_UUID, ignorable=True)
    # The high-watermark known by the replica. -1 if the high-watermark is not known and 9223372036854775807 if the
    # feature is not supported.
    high_watermark: i64 = field("18+", tag=1, default=0x7FFF_FFFF_FFFF_FFFF, ignorable=True)


@struct
class FetchTopic:
    topic: string = field("0-12", default="", ignorable=True)  # The name of the topic to fetch.
    topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)  # The unique topic ID.
    partitions: list[FetchPartition]  # The partitions to fetch.


@struct
class ForgottenTopic:
    topic: string = field("7-12", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)  # The unique topic ID.
    partitions: list[i32]  # The partitions indexes to forget.


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    """Starting in Version 2, the requester must be able to handle Kafka Log Message format version 1.
    Version 3 adds MaxBytes. Starting in version 3, the partition ordering in the request is now relevant.
    Partitions will be processed in the order they appear in the request.
    Version 4 adds IsolationLevel. Starting in version 4, the requestor must be able to handle Kafka log message
    format version 2.
    Version 5 adds LogStartOffset to indicate the earliest available offset of partition data that can be
    consumed.
    Version 7 adds incremental fetch request support.
    Version 9 adds CurrentLeaderEpoch, as described in KIP-320.
    Version 10 indicates that we can use the ZStd compression algorithm, as described in KIP-110.
    Version 12 adds flexible versions support as well as epoch validation through the `LastFetchedEpoch` field
    Version 13 replaces topic names with topic IDs (KIP-516). May return UNKNOWN_TOPIC_ID error code.
    Version 14 is the same as version 13 but it also receives a new error called
    OffsetMovedToTieredStorageException(KIP-405)
    Version 15 adds the ReplicaState which includes new field ReplicaEpoch and the ReplicaId. Also, deprecate the
    old ReplicaId field and set its default value to -1. (KIP-903)
    Version 16 is the same as version 15 (KIP-951).
    Version 17 adds directory id support from KIP-853
    Version 18 adds high-watermark from KIP-1166
    """

    # The clusterId if known. This is used to validate metadata fetches prior to broker registration.
    cluster_id: string | None = field("12+", tag=0, default=None, ignorable=True)
    # The broker ID of the follower, of -1 if this request is from a consumer.
    replica_id: i32 = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1, default=ReplicaState)  # The state of the replica in the follower.
    max_wait_ms: i32  # The maximum time in milliseconds to wait for the response.
    min_bytes: i32  # The minimum bytes to accumulate in the response.
    # The maximum bytes to fetch. See KIP-74 for cases where this limit may not be honored.
    max_bytes: i32 = field(default=0x7FFF_FFFF)
    # This setting controls the visibility of transactional records. Using READ_UNCOMMITTED (isolation_level = 0) makes
    # all records visible. With READ_COMMITTED (isolation_level = 1), non-transactional and COMMITTED transactional
    # records are visible. To be more concrete, READ_COMMITTED returns all data from offsets smaller than the current
    # LSO (last stable offset), and enables the inclusion of the list of aborted transactions in the result, which
    # allows consumers to discard ABORTED transactional records.
    isolation_level: i8 = field(default=0)
    session_id: i32 = field("7+", default=0, ignorable=True)  # The fetch session ID.
    # The fetch session epoch, which is used for ordering requests in a session.
    session_epoch: i32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic]  # The topics to fetch.
    # In an incremental fetch request, the partitions to remove.
    forgotten_topics_data: list[ForgottenTopic] = field("7+", default=[])
    rack_id: string = field("11+", default="", ignorable=True)  # Rack ID of the consumer making this request.


@struct
class EpochEndOffset:
    epoch: i32 = field(default=-1)  # The largest epoch.
    end_offset: i64 = field(default=-1)  # The end offset of the epoch.


@struct
class LeaderIdAndEpoch:
    leader_id: i32 = field(default=-1)  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32 = field(default=-1)  # The latest known leader epoch.


@struct
class SnapshotId:
    end_offset: i64 = field(default=-1)  # The end offset of the epoch.
    epoch: i32 = field(default=-1)  # The largest epoch.


@struct
class AbortedTransaction:
    producer_id: i64  # The producer id associated with the aborted transaction.
    first_offset: i64  # The first offset in the aborted transaction.


@struct
class PartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no fetch error.
    high_watermark: i64  # The current high water mark.
    # The last stable offset (or LSO) of the partition. This is the last offset such that the state of all transactional
    # records prior to this offset have been decided (ABORTED or COMMITTED).
    last_stable_offset: i64 = field(default=-1)
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)  # The current log start offset.
    # In case divergence is detected based on the `LastFetchedEpoch` and `FetchOffset` in the request, this field
    # indicates the largest epoch and its end offset such that subsequent records are known to diverge.
    diverging_epoch: EpochEndOffset = field("12+", tag=0, default=EpochEndOffset)
    # The current leader of the partition.
    current_leader: LeaderIdAndEpoch = field("12+", tag=1, default=LeaderIdAndEpoch)
    # In the case of fetching an offset less than the LogStartOffset, this is the end offset and epoch that should be
    # used in the FetchSnapshot request.
    snapshot_id: SnapshotId = field("12+", tag=2, default=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None  # The aborted transactions.
    # The preferred read replica for the consumer to use on its next fetch request.
    preferred_read_replica: i32 = field("11+", default=-1)
    records: record_batches | None  # The record data.


@struct
class FetchableTopicResponse:
    topic: string = field("0-12", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)  # The unique topic ID.
    partitions: list[PartitionData]  # The topic partitions.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: i32  # The node's port.
    rack: string | None = field(default=None)  # The rack of the node, or null if it has not been assigned to a rack.


@message(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    """Version 1 adds throttle time.
    Version 4 adds features for transactional consumption.
    Version 5 adds LogStartOffset to indicate the earliest available offset of partition data that can be
    consumed.
    Starting in version 6, we may return KAFKA_STORAGE_ERROR as an error code.
    Version 7 adds incremental fetch request support.
    Starting in version 8, on quota violation, brokers send out responses before throttling.
    Version 10 indicates that the response data can use the ZStd compression algorithm, as described in KIP-110.
    Version 12 adds support for flexible versions, epoch detection through the `TruncationOffset` field, and
    leader discovery through the `CurrentLeader` field
    Version 13 replaces the topic name field with topic ID (KIP-516).
    Version 14 is the same as version 13 but it also receives a new error called
    OffsetMovedToTieredStorageException (KIP-405)
    Version 15 is the same as version 14 (KIP-903).
    Version 16 adds the 'NodeEndpoints' field (KIP-951).
    Version 17 no changes to the response (KIP-853).
    Version 18 no changes to the response (KIP-1166)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16 = field("7+", default=0, ignorable=True)  # The top level response error code.
    session_id: i32 = field("7+", default=0)  # The fetch session ID, or 0 if this is not part of a fetch session.
    responses: list[FetchableTopicResponse]  # The response topics.
    # Endpoints for all current-leaders enumerated in PartitionData, with errors NOT_LEADER_OR_FOLLOWER &
    # FENCED_LEADER_EPOCH.
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, default=[])
