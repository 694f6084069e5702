"""The target of a streams group (Kafka: ``TargetAssignmentBuilder``, ``maybeUpdateStreamsTargetAssignment``)."""

from collections.abc import Mapping
from typing import Final

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.stories import ASSIGNED, assigned_to
from kpybroker.machines.groups.streams.assignor import (
    AssignmentMemberSpec,
    SubtopologySpec,
    TaskAssignorFailed,
    assign_tasks,
)
from kpybroker.machines.groups.streams.configured import ConfiguredTopology
from kpybroker.machines.groups.streams.member import StreamsMember
from kpybroker.machines.groups.streams.records import target_epoch_record, target_record
from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpybroker.machines.groups.streams.tasks import TargetTasks
from kpywire import error_codes

STANDBY_REPLICAS: Final = "num.standby.replicas"
RACK_TAGS: Final = "rack.aware.assignment.tags"


def assign(  # noqa: PLR0913
    group: StreamsGroup,
    epoch: int,
    updated: StreamsMember | None,
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
    records: list[GroupRecord],
    decision: GroupDecision,
    replaced: StreamsMember | None = None,
) -> Mapping[str, TargetTasks]:
    """Compute the target of all members, with ``updated`` as it is now; their targets by id. Raises Refused.

    ``replaced`` is the static member whose place ``updated`` takes.
    """
    specs = _specs(group, updated, replaced)
    assigned: Mapping[str, TargetTasks] = {}
    if configured.is_ready and configured.subtopologies is not None:
        topology = {
            each: SubtopologySpec(subtopology.tasks, bool(subtopology.changelogs))
            for each, subtopology in configured.subtopologies.items()
        }
        try:
            assigned = assign_tasks(specs, topology, int(configs.get(STANDBY_REPLICAS, "0")))
        except TaskAssignorFailed as failed:
            text = f"Failed to compute a new target assignment for epoch {epoch}: {failed}"
            raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, text) from None
    for member_id in specs:
        target = assigned.get(member_id, TargetTasks())
        if target != target_of(group, member_id, updated, replaced):
            records.append(target_record(group.group_id, member_id, target))
    records.append(target_epoch_record(group.group_id, epoch, decision.timestamp_ms))
    decision.tell(group.group_id, ASSIGNED, detail=assigned_to(epoch, specs))
    return assigned


def target_of(
    group: StreamsGroup, member_id: str, updated: StreamsMember | None, replaced: StreamsMember | None
) -> TargetTasks | None:
    """The target of a member; None if it has none yet. Who takes the place of a static member has the target of it."""
    if replaced is not None and updated is not None and member_id == updated.member_id:
        member_id = replaced.member_id
    return group.target.get(member_id)


def _specs(
    group: StreamsGroup, updated: StreamsMember | None, replaced: StreamsMember | None
) -> dict[str, AssignmentMemberSpec]:
    """The members as the assignor sees them, in the order of Kafka's table."""
    ids = group.ordered_members()
    if replaced is not None:
        ids.remove(replaced.member_id)
    if updated is not None and updated.member_id not in group.members:
        ids.append(updated.member_id)
    specs = {}
    for member_id in in_hash_order(ids, string_hash):
        member = updated if updated is not None and member_id == updated.member_id else group.members[member_id]
        held = TargetTasks(
            {name: frozenset(tasks) for name, tasks in member.assigned.active.items()},
            member.assigned.standby,
            member.assigned.warmup,
        )
        specs[member_id] = AssignmentMemberSpec(member.process_id, held, group.offsets_of(member_id).offsets)
    return specs
