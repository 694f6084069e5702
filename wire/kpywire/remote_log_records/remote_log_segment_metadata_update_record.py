"""RemoteLogSegmentMetadataUpdateRecord: type 1 in ``__remote_log_metadata``."""

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


@message(key=1, versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord:
    remote_log_segment_id: RemoteLogSegmentIdEntry  # Unique representation of the remote log segment.
    broker_id: i32  # Broker id from which this event is generated.
    event_timestamp_ms: i64  # Epoch time in milliseconds at which this event is generated.
    custom_metadata: bytes | None = field(default=None)  # Custom metadata.
    remote_log_segment_state: i8  # State identifier of the remote log segment, which is RemoteLogSegmentState.id().
