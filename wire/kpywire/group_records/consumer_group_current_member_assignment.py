"""ConsumerGroupCurrentMemberAssignment: a record of type 8, key and value."""

from __future__ import annotations

from kpywire.schema import field, i8, i32, message, string, struct, uuid


@message(key=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: string  # The group id.
    member_id: string  # The member id.


@struct
class TopicPartitions:
    topic_id: uuid  # The topic Id.
    partitions: list[i32]  # The partition Ids.
    # The epoch at which the partition was assigned to the member. Used to fence zombie commits requests. Of the same
    # length as Partitions.
    assignment_epochs: list[i32] | None = field(tag=0, default=[])


@message(key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: i32  # The current member epoch that is expected from the member in the heartbeat request.
    # If the last epoch bump is lost before reaching the member, the member will retry with the previous epoch.
    previous_member_epoch: i32
    state: i8  # The member state. See MemberState for the possible values.
    assigned_partitions: list[TopicPartitions]  # The partitions assigned to (or owned by) this member.
    partitions_pending_revocation: list[TopicPartitions]  # The partitions that must be revoked by this member.
