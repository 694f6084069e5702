"""StreamsGroupCurrentMemberAssignment: a record of type 22, key and value."""

from __future__ import annotations

from kpywire.schema import field, i8, i32, message, string, struct


@message(key=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: string  # The group ID.
    member_id: string  # The member ID.


@struct
class TaskIds:
    subtopology_id: string  # The subtopology ID.
    partitions: list[i32]  # The partitions of the input topics processed by this member.
    # The epoch at which the partition was assigned to the member. Used to fence zombie commits requests. Of the same
    # length as Partitions. Only defined for active tasks.
    assignment_epochs: list[i32] | None = field(tag=0, default=[])


@message(key=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: i32  # The current member epoch that is expected from the member in the heartbeat request.
    # If the last epoch bump is lost before reaching the member, the member will retry with the previous epoch.
    previous_member_epoch: i32
    state: i8  # The member state. See StreamsGroupMember.MemberState for the possible values.
    active_tasks: list[TaskIds]  # Currently assigned active tasks for this streams client.
    standby_tasks: list[TaskIds]  # Currently assigned standby tasks for this streams client.
    warmup_tasks: list[TaskIds]  # Currently assigned warm-up tasks for this streams client.
    active_tasks_pending_revocation: list[TaskIds]  # The active tasks that must be revoked by this member.
    standby_tasks_pending_revocation: list[TaskIds]  # The standby tasks that must be revoked by this member.
    warmup_tasks_pending_revocation: list[TaskIds]  # The warmup tasks that must be revoked by this member.
