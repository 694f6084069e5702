"""ConsumerGroupPartitionMetadata: a record of type 4, key and value."""

from __future__ import annotations

from kpywire.schema import i32, message, string, struct, uuid


@message(key=4, versions="0")
class ConsumerGroupPartitionMetadataKey:
    """This message is replaced by ConsumerGroupMetadataValue#MetadataHash in 4.1 (KIP-1101)."""

    group_id: string  # The group id.


@struct
class PartitionMetadata:
    partition: i32  # The partition number.
    racks: list[string]  # The set of racks that the partition is mapped to.


@struct
class TopicMetadata:
    topic_id: uuid  # The topic id.
    topic_name: string  # The topic name.
    num_partitions: i32  # The number of partitions of the topic.
    # Deprecated: this field is not used after 4.0. Partitions mapped to a set of racks. If the rack information is
    # unavailable for all the partitions, an empty list is stored.
    partition_metadata: list[PartitionMetadata]


@message(key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """This message is replaced by ConsumerGroupMetadataValue#MetadataHash in 4.1 (KIP-1101)."""

    topics: list[TopicMetadata]  # The list of topic metadata.
