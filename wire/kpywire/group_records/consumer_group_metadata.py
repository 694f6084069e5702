"""ConsumerGroupMetadata: a record of type 3, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message, string


@message(key=3, versions="0")
class ConsumerGroupMetadataKey:
    group_id: string  # The group id.


@message(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: i32  # The group epoch.
    # The hash of all topics in the group.
    # The MetadataHash is added in 4.1 (KIP-1101). It's used to track subscribed topics in the group. When subscribed
    # topics change, like partition count or rack change, the hash will be different. It indicates that the group should
    # be rebalanced.
    metadata_hash: i64 = field(tag=0, default=0)
