"""Members that leave a consumer group, or are removed from it (Kafka: ``consumerGroupFenceMembers``)."""

from collections.abc import Sequence

from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    regex_tombstone,
    target_epoch_record,
)
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import NEVER_MS
from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash
from kpybroker.machines.groups.epochs.member import AWAY_EPOCH, NOTHING
from kpybroker.machines.groups.record import GroupRecord


def fence_members(group: ConsumerGroup, members: Sequence[ConsumerMember], decision: GroupDecision) -> None:
    """Remove members for good. The group goes on at the next epoch. An empty group has the target
    of its epoch, made at no time, so that the next member does not wait for a target."""
    group_id = group.group_id
    records: list[GroupRecord] = []
    leaving: dict[str, int] = {}
    for member in members:
        records += member_tombstones(group_id, member.member_id)
        if member.topic_regex:
            leaving[member.topic_regex] = leaving.get(member.topic_regex, 0) + 1
    for regex in in_hash_order(list(leaving), string_hash):
        if group.regex_members.get(regex) == leaving[regex]:
            records.append(regex_tombstone(group_id, regex))
    topics = group.subscriptions_without(members).topics
    records.append(epoch_record(group_id, group.epoch + 1, decision.topics.group_hash(topics)))
    if len(members) == len(group.members):
        records.append(target_epoch_record(group_id, group.epoch + 1, NEVER_MS))
    decision.records += records


def leave_for_a_while(group: ConsumerGroup, member: ConsumerMember, decision: GroupDecision) -> None:
    """Note that a static member is away. It keeps its partitions until it returns or its session ends."""
    away = member._replace(
        member_epoch=AWAY_EPOCH,
        pending_revocation=NOTHING,
        assigned={topic_id: dict.fromkeys(indexes, 0) for topic_id, indexes in member.assigned.items()},
    )
    decision.records.append(current_record(group.group_id, away))
