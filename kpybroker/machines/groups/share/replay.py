"""How the records of share groups change a shard (Kafka: ``GroupMetadataManager.replay``).

Compaction may leave records in another order than they were written, and tombstones of what was never seen here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kpybroker.machines.groups.epochs.member import LEAVING_EPOCH, NOTHING
from kpybroker.machines.groups.group import NO_MEMBERS, Group
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.share_group import ShareGroup
from kpybroker.machines.groups.share.state_topics import Initializations, StateTopic, StateTopics
from kpywire.group_records.share_group_current_member_assignment import ShareGroupCurrentMemberAssignmentKey
from kpywire.group_records.share_group_member_metadata import ShareGroupMemberMetadataKey
from kpywire.group_records.share_group_metadata import ShareGroupMetadataKey
from kpywire.group_records.share_group_state_partition_metadata import ShareGroupStatePartitionMetadataKey
from kpywire.group_records.share_group_target_assignment_member import ShareGroupTargetAssignmentMemberKey
from kpywire.group_records.share_group_target_assignment_metadata import ShareGroupTargetAssignmentMetadataKey


def _take_member(group: ShareGroup, key: Any, value: Any | None) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    group.put(
        (group.members.get(key.member_id) or ShareMember(key.member_id))._replace(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )
    )


def _take_target(group: ShareGroup, key: Any, value: Any | None) -> None:
    target = None
    if value is not None:
        target = {each.topic_id: tuple(each.partitions) for each in value.topic_partitions}
    group.set_target(key.member_id, target)


def _take_target_epoch(group: ShareGroup, _key: Any, value: Any | None) -> None:
    group.assignment_epoch = LEAVING_EPOCH if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


def _take_current(group: ShareGroup, key: Any, value: Any | None) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(
                member._replace(member_epoch=LEAVING_EPOCH, previous_member_epoch=LEAVING_EPOCH, assigned=NOTHING)
            )
        return
    group.put(
        (member or ShareMember(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=value.state,
            assigned={each.topic_id: tuple(each.partitions) for each in value.assigned_partitions},
        )
    )


def _take_states(group: ShareGroup, _key: Any, value: Any | None) -> None:
    group.states = None
    if value is not None:
        group.states = StateTopics(
            _topics(value.initializing_topics),
            _topics(value.initialized_topics),
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )


def _topics(infos: list[Any]) -> dict[bytes, StateTopic]:
    return {each.topic_id: StateTopic(each.topic_name, frozenset(each.partitions)) for each in infos}


def _take_epoch(group: ShareGroup, _key: Any, value: Any) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


_TAKES: Mapping[type, Callable[[ShareGroup, Any, Any], None]] = {
    ShareGroupCurrentMemberAssignmentKey: _take_current,
    ShareGroupMemberMetadataKey: _take_member,
    ShareGroupMetadataKey: _take_epoch,
    ShareGroupStatePartitionMetadataKey: _take_states,
    ShareGroupTargetAssignmentMemberKey: _take_target,
    ShareGroupTargetAssignmentMetadataKey: _take_target_epoch,
}

KEYS = tuple(_TAKES)
"""The types of the keys of all records of share groups."""


def take_share_group(shard: GroupShard, key: Any, value: Any | None) -> None:
    """Apply one record of a share group, or its tombstone. The tombstone of its epoch is the end of the group."""
    group = shard.groups.get(key.group_id)
    share = None if group is None else group.membership
    if not isinstance(share, ShareGroup):
        if value is None:
            return
        if group is None:
            group = shard.groups[key.group_id] = Group(key.group_id)
        share = group.membership = ShareGroup(key.group_id)
    if value is None and type(key) is ShareGroupMetadataKey:
        if group is not None:
            group.membership = NO_MEMBERS
            shard.notes(Initializations).since_ms.pop(key.group_id, None)
            if group.is_unknown:
                del shard.groups[group.group_id]
        return
    _TAKES[type(key)](share, key, value)
