"""How the records of share groups change a group."""

from collections.abc import Callable, Mapping
from typing import Any

from kpybroker.machines.groups.epochs.member import LEAVING_EPOCH, NOTHING
from kpybroker.machines.groups.epochs.replay import replays_of, take_epoch, take_target, take_target_epoch
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


_TAKES: Mapping[type, Callable[[ShareGroup, Any, Any], None]] = {
    ShareGroupCurrentMemberAssignmentKey: _take_current,
    ShareGroupMemberMetadataKey: _take_member,
    ShareGroupMetadataKey: take_epoch,
    ShareGroupStatePartitionMetadataKey: _take_states,
    ShareGroupTargetAssignmentMemberKey: take_target,
    ShareGroupTargetAssignmentMetadataKey: take_target_epoch,
}


def _forget(shard: GroupShard, group_id: str) -> None:
    shard.notes(Initializations).pop(group_id, None)


REPLAYS = replays_of(ShareGroup, _TAKES, ShareGroupMetadataKey, _forget)
