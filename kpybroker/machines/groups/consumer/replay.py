"""How the records of consumer groups change a group."""

from collections.abc import Callable, Mapping
from typing import Any

from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from kpybroker.machines.groups.consumer.member import ClassicMember, ConsumerMember, Partitions
from kpybroker.machines.groups.epochs.member import LEAVING_EPOCH, NOTHING
from kpybroker.machines.groups.epochs.replay import replays_of, take_epoch, take_target, take_target_epoch
from kpywire.group_records.consumer_group_current_member_assignment import ConsumerGroupCurrentMemberAssignmentKey
from kpywire.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataKey
from kpywire.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from kpywire.group_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from kpywire.group_records.consumer_group_regular_expression import ConsumerGroupRegularExpressionKey
from kpywire.group_records.consumer_group_target_assignment_member import ConsumerGroupTargetAssignmentMemberKey
from kpywire.group_records.consumer_group_target_assignment_metadata import ConsumerGroupTargetAssignmentMetadataKey


def _take_member(group: ConsumerGroup, key: Any, value: Any | None) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    classic = value.classic_member_metadata
    member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    group.put(
        member._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMember(
                classic.session_timeout_ms, tuple((each.name, each.metadata) for each in classic.supported_protocols)
            ),
        )
    )


def _take_current(group: ConsumerGroup, key: Any, value: Any | None) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(
                member._replace(
                    member_epoch=LEAVING_EPOCH,
                    previous_member_epoch=LEAVING_EPOCH,
                    assigned=NOTHING,
                    pending_revocation=NOTHING,
                )
            )
        return
    group.put(
        (member or ConsumerMember(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
            pending_revocation=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _with_epochs(topics: list[Any], epoch: int) -> Partitions:
    """The partitions of a record. Kafka before 4.3 did not write their epochs, which are that of the member then."""
    return {
        topic.topic_id: dict(zip(topic.partitions, topic.assignment_epochs, strict=True))
        if topic.assignment_epochs
        else dict.fromkeys(topic.partitions, epoch)
        for topic in topics
    }


def _take_regex(group: ConsumerGroup, key: Any, value: Any | None) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.set_regex(key.regular_expression, resolved)


def _take_partition_metadata(group: ConsumerGroup, _key: Any, value: Any | None) -> None:
    group.has_partition_metadata = value is not None


_TAKES: Mapping[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupCurrentMemberAssignmentKey: _take_current,
    ConsumerGroupMemberMetadataKey: _take_member,
    ConsumerGroupMetadataKey: take_epoch,
    ConsumerGroupPartitionMetadataKey: _take_partition_metadata,
    ConsumerGroupRegularExpressionKey: _take_regex,
    ConsumerGroupTargetAssignmentMemberKey: take_target,
    ConsumerGroupTargetAssignmentMetadataKey: take_target_epoch,
}

REPLAYS = replays_of(ConsumerGroup, _TAKES, ConsumerGroupMetadataKey)
