"""A classic group with members becomes a consumer group when the first member of that protocol joins it (KIP-848).

(Kafka: ``validateOnlineUpgrade``, ``ConsumerGroup.fromClassicGroup``.) Its members stay, as classic ones.
"""

from kpybroker.machines.groups.classic.asleep import AsleepGroup, wake
from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.member import ClassicGroupMember
from kpybroker.machines.groups.classic.rebalance import refuse_waiting
from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.member import ClassicMember, ConsumerMember, Partitions
from kpybroker.machines.groups.consumer.records import (
    current_record,
    epoch_record,
    subscription_record,
    target_epoch_record,
    target_record,
)
from kpybroker.machines.groups.consumer.timeouts import renew_session
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.member import NOTHING
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.mixed.protocol import read_assignment, read_subscription
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.metadata.topic_view import TopicView
from kpywire import error_codes
from kpywire.errors import Malformed

POLICIES = ("upgrade", "bidirectional")


def upgrade(
    shard: GroupShard, group: Group, records: list[GroupRecord], decision: GroupDecision
) -> ConsumerGroup | None:
    """The consumer group that a classic group becomes; None if it is none. Raises Refused if it may not become one."""
    membership = group.membership
    if isinstance(membership, AsleepGroup):
        membership = wake(group, decision)
    if not isinstance(membership, ClassicGroup) or membership.state is ClassicGroupState.EMPTY:
        return None
    _check(membership, decision)
    for member in membership.members.values():
        if member.awaiting_join is not None:
            membership.awaiting_joins -= 1
        refuse_waiting(member, error_codes.REBALANCE_IN_PROGRESS, decision, member.member_id)
    consumer = _converted(membership, decision.topics)
    records += membership.tombstones(group.group_id)
    group_id, members = group.group_id, list(consumer.members.values())
    records += [subscription_record(group_id, member) for member in members]
    records.append(epoch_record(group_id, consumer.epoch, consumer.metadata_hash))
    records += [target_record(group_id, each.member_id, consumer.target[each.member_id]) for each in members]
    records.append(target_epoch_record(group_id, consumer.epoch, consumer.assignment_timestamp_ms))
    records += [current_record(group_id, member) for member in members]
    for each in membership.members.values():
        renew_session(shard, group_id, each.member_id, decision, each.session_timeout_ms)
    return consumer


def _check(classic: ClassicGroup, decision: GroupDecision) -> None:
    reason = None
    if decision.settings.consumer_migration_policy not in POLICIES:
        reason = "online upgrade is disabled"
    elif not classic.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > decision.settings.consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _refused(classic.group_id, reason)


def _refused(group_id: str, reason: str) -> RequestRefused:
    text = f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    return RequestRefused(error_codes.GROUP_ID_NOT_FOUND, text)


def _converted(classic: ClassicGroup, topics: TopicView) -> ConsumerGroup:
    consumer = ConsumerGroup(classic.group_id)
    consumer.epoch = consumer.assignment_epoch = classic.generation_id
    try:
        for member in classic.members.values():
            converted = _converted_member(classic, member, topics)
            consumer.set_target(
                member.member_id, {topic_id: tuple(each) for topic_id, each in converted.assigned.items()}
            )
            consumer.put(converted)
    except Malformed:
        raise _refused(classic.group_id, "the embedded consumer protocol is malformed") from None
    consumer.metadata_hash = topics.group_hash(consumer.by_name)
    return consumer


def _converted_member(classic: ClassicGroup, member: ClassicGroupMember, topics: TopicView) -> ConsumerMember:
    assigned: Partitions = NOTHING
    if member.assignment:
        names, user_data = read_assignment(member.assignment)
        if user_data:
            reason = (
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
            )
            raise _refused(classic.group_id, f"{reason} assignor before re-attempting the upgrade")
        assigned = {
            topics.by_name[name].id: dict.fromkeys(indexes, classic.generation_id)
            for name, indexes in names.items()
            if name in topics.by_name
        }
    metadata = member.metadata(classic.protocol_name)
    if not metadata:
        text = f"Member does not support protocol {classic.protocol_name}"
        raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, text)
    subscription = read_subscription(metadata)
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=classic.generation_id,
        previous_member_epoch=classic.generation_id,
        instance_id=member.group_instance_id,
        rack_id=getattr(subscription, "rack_id", None) or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMember(member.session_timeout_ms, tuple(member.protocols)),
    )
