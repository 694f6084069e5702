"""A member that leaves a share group, or is removed from it (Kafka: ``shareGroupFenceMember``)."""

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import NEVER_MS
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.records import epoch_record, member_tombstones, target_epoch_record
from kpybroker.machines.groups.share.share_group import ShareGroup


def fence(group: ShareGroup, member: ShareMember, decision: GroupDecision) -> None:
    """Remove a member. The group goes on at the next epoch."""
    decision.records += member_tombstones(group.group_id, member.member_id)
    metadata_hash = decision.topics.group_hash(group.by_name_with(member, None))
    decision.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
    if len(group.members) == 1:
        decision.records.append(target_epoch_record(group.group_id, group.epoch + 1, NEVER_MS))
