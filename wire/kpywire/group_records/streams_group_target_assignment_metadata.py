"""StreamsGroupTargetAssignmentMetadata: a record of type 20, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message, string


@message(key=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: string  # The group ID.


@message(key=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: i32  # The assignment epoch.
    # The time at which the assignment calculation finished.
    # Added in 4.3 (KIP-1263).
    assignment_timestamp: i64 = field(tag=0, default=0)
