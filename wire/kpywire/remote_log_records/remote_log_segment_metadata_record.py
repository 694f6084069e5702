"""RemoteLogSegmentMetadataRecord: type 0 in ``__remote_log_metadata``."""

from __future__ import annotations

from kpywire.schema import field, i8, i32, i64, message, string, struct, uuid


@struct
class TopicIdPartitionEntry:
    name: string  # Topic name.
    id: uuid  # Unique identifier of the topic.
    partition: i32  # Partition number.


@struct
class RemoteLogSegmentIdEntry:
    topic_id_partition: TopicIdPartitionEntry  # Represents unique topic partition.
    id: uuid  # Unique identifier of the remote log segment.


@struct
class SegmentLeaderEpochEntry:
    leader_epoch: i32  # Leader epoch
    offset: i64  # Start offset for the leader epoch.


@message(key=0, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord:
    remote_log_segment_id: RemoteLogSegmentIdEntry  # Unique representation of the remote log segment.
    start_offset: i64  # Start offset of the segment.
    end_offset: i64  # End offset of the segment.
    broker_id: i32  # Broker id from which this event is generated.
    max_timestamp_ms: i64  # Maximum timestamp in milliseconds with in this segment.
    event_timestamp_ms: i64  # Epoch time in milliseconds at which this event is generated.
    # Leader epoch to start-offset mappings for the records with in this segment.
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: i32  # Segment size in bytes.
    custom_metadata: bytes | None = field(default=None)  # Custom metadata.
    remote_log_segment_state: i8  # State identifier of the remote log segment, which is RemoteLogSegmentState.id().
    txn_index_empty: bool = field(tag=0, default=False)  # Flag to indicate if the transaction index is empty.
