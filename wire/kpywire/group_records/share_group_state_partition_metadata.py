"""ShareGroupStatePartitionMetadata: a record of type 15, key and value."""

from __future__ import annotations

from kpywire.schema import i32, message, string, struct, uuid


@message(key=15, versions="0")
class ShareGroupStatePartitionMetadataKey:
    group_id: string  # The group id.


@struct
class TopicPartitionsInfo:
    topic_id: uuid  # The topic identifier.
    topic_name: string  # The topic name.
    partitions: list[i32]  # The partitions.


@struct
class TopicInfo:
    topic_id: uuid  # The topic identifier.
    topic_name: string  # The topic name.


@message(key=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[TopicPartitionsInfo]  # The topic-partitions whose share-group state is being initialized.
    initialized_topics: list[TopicPartitionsInfo]  # The topics with initialized share-group state.
    deleting_topics: list[TopicInfo]  # The topics whose share-group state is being deleted.
