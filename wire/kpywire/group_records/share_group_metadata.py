"""ShareGroupMetadata: a record of type 11, key and value."""

from __future__ import annotations

from kpywire.schema import i32, i64, message, string


@message(key=11, versions="0")
class ShareGroupMetadataKey:
    group_id: string  # The group id.


@message(key=11, versions="0", flexible="0+")
class ShareGroupMetadataValue:
    epoch: i32  # The group epoch.
    metadata_hash: i64  # The hash of all topics in the group.
