"""StreamsGroupTargetAssignmentMember: a record of type 21, key and value."""

from __future__ import annotations

from kpywire.schema import i32, message, string, struct


@message(key=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey:
    group_id: string  # The group ID.
    member_id: string  # The member ID.


@struct
class TaskIds:
    subtopology_id: string  # The subtopology ID.
    partitions: list[i32]  # The partitions of the input topics processed by this member.


@message(key=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TaskIds]  # Currently assigned active tasks for this streams client.
    standby_tasks: list[TaskIds]  # Currently assigned standby tasks for this streams client.
    warmup_tasks: list[TaskIds]  # Currently assigned warm-up tasks for this streams client.
