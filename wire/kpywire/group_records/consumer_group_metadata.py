"""ConsumerGroupMetadata: a record of type 3, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message, string


@message(key=3, versions="0")
class ConsumerGroupMetadataKey:
    """"""

    group_id: string  # The group id.


@message(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """"""

    epoch: i32  # The group epoch.
    metadata_hash: i64 = field(tag=0, default=0)  # The hash of all topics in the group.
