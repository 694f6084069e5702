"""The target assignment of a share group: who reads what (Kafka: ``ShareTargetAssignmentBuilder``).

Only partitions whose delivery state is initialised are assigned.
"""

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs import target as epochs
from kpybroker.machines.groups.epochs.java_order import copied_set_capacity, in_hash_order, string_hash, string_key
from kpybroker.machines.groups.epochs.member import NOTHING, Target
from kpybroker.machines.groups.epochs.target import MemberTarget, is_same
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.records import target_epoch_record, target_record
from kpybroker.machines.groups.share.share_group import ShareGroup
from kpybroker.machines.groups.share.simple_assignor import ShareMemberSpec, assign_simply
from kpybroker.machines.groups.stories import ASSIGNED, assigned_to


def may_assign(group: ShareGroup, epoch: int, decision: GroupDecision) -> bool:
    """Whether a target is to be computed. As long as no member has anything, nothing is moved too often."""
    settings = decision.settings_of(group.group_id)
    is_first = settings.share_unsettled_heartbeat_interval_ms and not any(group.target.values())
    return epochs.may_assign(group, epoch, 0 if is_first else settings.share_assignment_interval_ms, decision)


def assign(
    group: ShareGroup,
    epoch: int,
    updated: ShareMember,
    records: list[GroupRecord],
    decision: GroupDecision,
    *,
    homogeneous: bool,
) -> MemberTarget:
    """Compute the target of all members. Return that of ``updated``, which is or becomes one of them."""
    ids = group.ordered_members(*([] if updated.member_id in group.members else [updated.member_id]))
    specs = {}
    for member_id in in_hash_order(ids, string_hash):
        member = updated if member_id == updated.member_id else group.members[member_id]
        specs[member_id] = ShareMemberSpec(_topic_ids(member, decision), group.target.get(member_id, NOTHING))
    assigned = assign_simply(specs, _assignable(group, decision), is_homogeneous=homogeneous)
    for member_id in specs:
        target = assigned.get(member_id, NOTHING)
        if not is_same(target, group.target.get(member_id)):
            records.append(target_record(group.group_id, member_id, target))
    records.append(target_epoch_record(group.group_id, epoch, decision.timestamp_ms))
    decision.tell(group.group_id, ASSIGNED, detail=assigned_to(epoch, specs))
    return MemberTarget(epoch, assigned.get(updated.member_id, NOTHING))


def _topic_ids(member: ShareMember, decision: GroupDecision) -> list[bytes]:
    """The existing topics that a member reads, in the order of Kafka's table."""
    known = decision.topics.by_name
    names = sorted(member.topic_names, key=string_key)
    ordered = in_hash_order(names, string_hash, capacity=copied_set_capacity(len(names)))
    return [known[name].id for name in ordered if name in known]


def _assignable(group: ShareGroup, decision: GroupDecision) -> dict[bytes, list[int]]:
    """The partitions that exist and have a delivery state."""
    known = decision.topics.by_id
    initialized = {} if group.states is None else group.states.initialized
    return {
        topic_id: [index for index in topic.partitions if index in known[topic_id].partitions]
        for topic_id, topic in initialized.items()
        if topic_id in known
    }


def has_unassigned(group: ShareGroup) -> bool:
    """Whether subscribed partitions were initialised that are in nobody's target, or the reverse."""
    if not group.members or group.states is None or not group.by_name:
        return False
    assigned: dict[bytes, set[int]] = {}
    for target in group.target.values():
        for topic_id, indexes in target.items():
            assigned.setdefault(topic_id, set()).update(indexes)
    return any(
        topic_id not in assigned or frozenset(assigned[topic_id]) != topic.partitions
        for topic_id, topic in group.states.initialized.items()
        if topic.name in group.by_name
    )


def subscribed(target: Target, member: ShareMember, decision: GroupDecision) -> Target:
    """The part of a target in topics that the member reads."""
    known = decision.topics.by_id
    return {
        topic_id: indexes
        for topic_id, indexes in target.items()
        if topic_id in known and known[topic_id].name in member.topic_names
    }
