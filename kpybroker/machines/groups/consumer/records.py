"""The records of consumer groups (Kafka: ``GroupCoordinatorRecordHelpers``)."""

from collections.abc import Iterable, Mapping

from kpybroker.machines.groups.consumer.member import ConsumerMember, Partitions
from kpybroker.machines.groups.epochs.java_order import string_key
from kpybroker.machines.groups.epochs.member import Target
from kpybroker.machines.groups.record import GroupRecord
from kpywire.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kpywire.group_records.consumer_group_current_member_assignment import TopicPartitions as CurrentPartitions
from kpywire.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kpywire.group_records.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kpywire.group_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from kpywire.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kpywire.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kpywire.group_records.consumer_group_target_assignment_member import TopicPartition as TargetPartitions
from kpywire.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """Record 3: the epoch of a group."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def subscription_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """Record 5: who a member is, and what it subscribes to."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names, key=string_key),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
        ),
    )
    return GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """Record 6: the epoch and the time of a target."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Target) -> GroupRecord:
    """Record 7: the target of a member."""
    partitions = [TargetPartitions(topic_id=topic_id, partitions=list(each)) for topic_id, each in target.items()]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """Record 8: what a member has, and what it has to give up."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.pending_revocation),
    )
    return GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def regex_record(group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int) -> GroupRecord:
    """Record 16: the topics that a regular expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics, key=string_key), version=version, timestamp=timestamp_ms
    )
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> GroupRecord:
    """The end of a record 16."""
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    """The end of a record 4, which Kafka wrote before 4.1."""
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The end of a member."""
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Mapping[str, object]) -> list[GroupRecord]:
    """The end of a group with all its members."""
    ends = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in ends),
        *(target for _, target, _ in ends),
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(subscription for _, _, subscription in ends),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        GroupRecord(ConsumerGroupMetadataKey(group_id=group_id)),
    ]


def _with_epochs(partitions: Partitions) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(topic_id=topic_id, partitions=list(each), assignment_epochs=list(each.values()))
        for topic_id, each in partitions.items()
    ]
