"""RemotePartitionDeleteMetadataRecord: type 2 in ``__remote_log_metadata``."""

from __future__ import annotations

from kpywire.schema import i8, i32, i64, message, string, struct, uuid


@struct
class TopicIdPartitionEntry:
    name: string  # Topic name.
    id: uuid  # Unique identifier of the topic.
    partition: i32  # Partition number.


@message(key=2, versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord:
    topic_id_partition: TopicIdPartitionEntry  # Represents unique topic partition.
    # Broker (controller or leader) id from which this event is created. DELETE_PARTITION_MARKED is sent by the
    # controller. DELETE_PARTITION_STARTED and DELETE_PARTITION_FINISHED are sent by remote log metadata topic partition
    # leader.
    broker_id: i32
    event_timestamp_ms: i64  # Epoch time in milliseconds at which this event is generated.
    # Deletion state identifier of the remote partition, which is RemotePartitionDeleteState.id().
    remote_partition_delete_state: i8
