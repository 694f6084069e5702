"""ShareGroupCurrentMemberAssignment: a record of type 14, key and value."""

from __future__ import annotations

from kpywire.schema import i8, i32, message, string, struct, uuid


@message(key=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey:
    group_id: string  # The group id.
    member_id: string  # The member id.


@struct
class TopicPartitions:
    topic_id: uuid  # The topic Id.
    partitions: list[i32]  # The partition Ids.


@message(key=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: i32  # The current member epoch that is expected from the member in the heartbeat request.
    # If the last epoch bump is lost before reaching the member, the member will retry with the previous epoch.
    previous_member_epoch: i32
    state: i8  # The member state. See MemberState for the possible values.
    assigned_partitions: list[TopicPartitions]  # The partitions assigned to (or owned by) this member.
