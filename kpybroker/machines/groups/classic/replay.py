"""How the record of a classic group changes a shard (Kafka: ``GroupMetadataManager.replay`` of GroupMetadata)."""

from kpybroker.machines.groups.classic.asleep import AsleepGroup
from kpybroker.machines.groups.classic.classic_group import ClassicGroup
from kpybroker.machines.groups.group import NO_MEMBERS, Group
from kpybroker.machines.groups.shard import GroupShard
from kpywire.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue


def take_group(shard: GroupShard, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Apply the record of a group's generation, or its tombstone. A group that is awake goes on with it; any other
    sleeps until its members are needed."""
    group = shard.groups.get(key.group)
    if value is not None:
        if group is None:
            group = shard.groups[key.group] = Group(key.group)
        membership = group.successor or group.membership
        group.successor = None
        if isinstance(membership, ClassicGroup):
            group.membership = membership
            membership.take_record(value)
        else:
            group.membership = AsleepGroup(value)
    elif group is not None:
        membership = group.membership
        if isinstance(membership, ClassicGroup):
            _cancel_timers(shard, membership)
        if isinstance(membership, (AsleepGroup, ClassicGroup)):
            group.membership = NO_MEMBERS
        if group.is_unknown:
            del shard.groups[key.group]


def _cancel_timers(shard: GroupShard, classic: ClassicGroup) -> None:
    for timer in (classic.join_timer, classic.sync_timer, *classic.pending_members.values()):
        if timer is not None:
            shard.timers.cancel(timer)
    for member in classic.members.values():
        shard.timers.cancel(member.session)
