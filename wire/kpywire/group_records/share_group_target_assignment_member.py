"""ShareGroupTargetAssignmentMember: a record of type 13, key and value."""

from __future__ import annotations

from kpywire.schema import i32, message, string, struct, uuid


@message(key=13, versions="0")
class ShareGroupTargetAssignmentMemberKey:
    group_id: string  # The group id.
    member_id: string  # The member id.


@struct
class TopicPartition:
    topic_id: uuid  # The topic id.
    partitions: list[i32]  # The partition indexes.


@message(key=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition]  # The assigned partitions.
