"""RemoteLogSegmentMetadataSnapshotRecord: type 3 in ``__remote_log_metadata``."""

from __future__ import annotations

from kpywire.schema import field, i8, i32, i64, message, struct, uuid


@struct
class SegmentLeaderEpochEntry:
    leader_epoch: i32  # Leader epoch
    offset: i64  # Start offset for the leader epoch


@message(key=3, versions="0", flexible="0+")
class RemoteLogSegmentMetadataSnapshotRecord:
    segment_id: uuid  # Unique identifier of the log segment
    start_offset: i64  # Start offset of the segment.
    end_offset: i64  # End offset of the segment.
    broker_id: i32  # Broker (controller or leader) id from which this event is created or updated.
    max_timestamp_ms: i64  # Maximum timestamp with in this segment.
    event_timestamp_ms: i64  # Event timestamp of this segment.
    segment_leader_epochs: list[SegmentLeaderEpochEntry]  # Leader epochs of this segment.
    segment_size_in_bytes: i32  # Segment size in bytes
    custom_metadata: bytes | None = field(default=None)  # Custom metadata.
    remote_log_segment_state: i8  # State of the remote log segment
    txn_index_empty: bool = field(tag=0, default=False)  # Flag to indicate if the transaction index is empty.
