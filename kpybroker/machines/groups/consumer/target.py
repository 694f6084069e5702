"""The target assignment of a group: who gets what when all have given up what is not theirs.

(Kafka: ``TargetAssignmentBuilder``, ``maybeUpdateTargetAssignment``.)
"""

from collections.abc import Mapping

from kpybroker.machines.groups.consumer.assignors import ASSIGNORS, GroupSpec, PartitionAssignorFailed
from kpybroker.machines.groups.consumer.assignors.group_spec import MemberSpec
from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.consumer.reconcile import subscribed_ids
from kpybroker.machines.groups.consumer.records import target_epoch_record, target_record
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import add_counts
from kpybroker.machines.groups.epochs.java_order import (
    copied_map_capacity,
    in_hash_order,
    in_timeline_order,
    string_hash,
)
from kpybroker.machines.groups.epochs.member import NOTHING, Target
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.epochs.target import MemberTarget, is_same
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.stories import ASSIGNED, assigned_to
from kpywire import error_codes

SETTLING_MS = 5_000
"""After this time without changes a target counts as old. Members often come and go together."""


def last_target(group: ConsumerGroup, member: ConsumerMember, epoch: int, decision: GroupDecision) -> MemberTarget:
    """The target of a member that was computed last, when the group is at ``epoch``."""
    is_old = group.assignment_epoch >= epoch and decision.ms_since(group.assignment_timestamp_ms) >= SETTLING_MS
    return MemberTarget(group.assignment_epoch, group.target_of(member), is_old)


def assign(
    group: ConsumerGroup,
    epoch: int,
    member: ConsumerMember,
    updated: ConsumerMember,
    records: list[GroupRecord],
    decision: GroupDecision,
    *,
    is_homogeneous: bool,
) -> MemberTarget:
    """Compute the target of all members, with ``updated`` in the place of ``member``. Return that of ``updated``."""
    specs = _specs(group, updated, decision)
    spec = GroupSpec(specs, is_homogeneous, group.target_owners)
    name = preferred_assignor(group, member, updated) or decision.settings.consumer_assignors[0]
    try:
        assigned: Mapping[str, Target] = ASSIGNORS[name](spec)
    except PartitionAssignorFailed as failed:
        text = f"Failed to compute a new target assignment for epoch {epoch}: {failed}"
        raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, text) from None
    for member_id in specs:
        target = assigned.get(member_id, NOTHING)
        if not is_same(target, group.target.get(member_id)):
            records.append(target_record(group.group_id, member_id, target))
    records.append(target_epoch_record(group.group_id, epoch, decision.timestamp_ms))
    decision.tell(group.group_id, ASSIGNED, detail=assigned_to(epoch, specs))
    return MemberTarget(epoch, assigned.get(updated.member_id, NOTHING))


def preferred_assignor(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> str | None:
    """The assignor that most members ask for; None if nobody asks for one."""
    counts = dict(group.assignors)
    names = in_timeline_order(counts, len(counts))
    capacity = copied_map_capacity(len(counts))
    for each, by in ((member, -1), (updated, 1)):
        name = each.server_assignor
        if name is None:
            continue
        add_counts(counts, (name,), by)
        if name not in counts:
            names.remove(name)
        elif name not in names:
            names.insert(0, name)  # ``HashMap.compute`` puts a new key before the others
    return max(in_hash_order(names, string_hash, capacity=capacity), key=lambda name: counts[name], default=None)


def changes_assignor(
    group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, decision: GroupDecision
) -> bool:
    """Whether the group prefers another assignor with ``updated`` in the place of ``member``.

    If as many members ask for one as for another, two tables of Kafka may put them in different orders. Then each
    heartbeat seems to be a change, as in Kafka.
    """
    if len(group.assignors) < 2 and member.server_assignor == updated.server_assignor:
        return False
    usual = decision.settings.consumer_assignors[0]
    counts = group.assignors
    current = max(in_timeline_order(counts, len(counts)), key=lambda name: counts[name], default=usual)
    return current != (preferred_assignor(group, member, updated) or usual)


def _specs(group: ConsumerGroup, updated: ConsumerMember, decision: GroupDecision) -> dict[str, MemberSpec]:
    """The members as the assignor sees them, in the order of Kafka's table."""
    topics = decision.topics
    replaced = group.static_member(updated.instance_id)
    ids = group.ordered_members()
    if updated.member_id not in group.members:
        ids.append(updated.member_id)
    known: dict[tuple[frozenset[str], str | None], Mapping[bytes, int]] = {}
    specs = {}
    for member_id in in_hash_order(ids, string_hash):
        if replaced is not None and member_id == replaced.member_id != updated.member_id:
            continue
        member = updated if member_id == updated.member_id else group.members[member_id]
        subscription = (member.topic_names, member.topic_regex)
        topic_ids = known.get(subscription)
        if topic_ids is None:
            topic_ids = known[subscription] = subscribed_ids(group, member, topics)
        target = group.target.get(member_id, NOTHING)
        if member is updated and replaced is not None:
            target = group.target.get(replaced.member_id, NOTHING)
        specs[member_id] = MemberSpec(member.instance_id, topic_ids, target)
    return specs
