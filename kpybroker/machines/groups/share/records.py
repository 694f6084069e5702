"""The records of share groups (Kafka: ``GroupCoordinatorRecordHelpers``)."""

from collections.abc import Iterable, Mapping

from kpybroker.machines.groups.epochs.java_order import string_key
from kpybroker.machines.groups.epochs.member import Target
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.state_topics import StateTopic, StateTopics
from kpywire.group_records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from kpywire.group_records.share_group_current_member_assignment import TopicPartitions as CurrentPartitions
from kpywire.group_records.share_group_member_metadata import ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue
from kpywire.group_records.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from kpywire.group_records.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kpywire.group_records.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from kpywire.group_records.share_group_target_assignment_member import TopicPartition as TargetPartitions
from kpywire.group_records.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)


def subscription_record(group_id: str, member: ShareMember) -> GroupRecord:
    """Record 10: who a member is, and what it subscribes to."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names, key=string_key),
    )
    return GroupRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """Record 11: the epoch of a group."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return GroupRecord(ShareGroupMetadataKey(group_id=group_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """Record 12: the epoch and the time of a target."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Target) -> GroupRecord:
    """Record 13: the target of a member."""
    partitions = [TargetPartitions(topic_id=topic_id, partitions=list(each)) for topic_id, each in target.items()]
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return GroupRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ShareMember) -> GroupRecord:
    """Record 14: what a member has."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=[
            CurrentPartitions(topic_id=topic_id, partitions=list(each)) for topic_id, each in member.assigned.items()
        ],
    )
    return GroupRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def states_record(group_id: str, topics: StateTopics) -> GroupRecord:
    """Record 15: the topics whose states are initialised, or will be, or are being deleted."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(topics.initializing),
        initialized_topics=_infos(topics.initialized),
        deleting_topics=[TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in topics.deleting.items()],
    )
    return GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The end of a member."""
    return [
        GroupRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        GroupRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        GroupRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[GroupRecord]:
    """The end of a group with all its members."""
    ends = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in ends),
        *(target for _, target, _ in ends),
        GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(subscription for _, _, subscription in ends),
        GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        GroupRecord(ShareGroupMetadataKey(group_id=group_id)),
    ]


def _infos(topics: Mapping[bytes, StateTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]
