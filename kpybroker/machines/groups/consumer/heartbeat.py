"""ConsumerGroupHeartbeat (KIP-848): a member joins, stays, changes its subscription, gives up partitions, or leaves.

(Kafka: ``GroupMetadataManager.consumerGroupHeartbeat``.) The order of the checks and of the records is Kafka's. What is
wrong with a request alone is refused before it comes here (``GroupCoordinatorService``).
"""

from collections.abc import Callable
from typing import Any

from kpybroker.machines.groups.beats import BEATING_OFTEN, Beat, at_rest_ms
from kpybroker.machines.groups.consumer.consumer_group import CONSUMER, ConsumerGroup, is_away
from kpybroker.machines.groups.consumer.leave import leave_for_a_while
from kpybroker.machines.groups.consumer.member import ConsumerMember, Partitions, is_subset
from kpybroker.machines.groups.consumer.reconcile import MemberStep
from kpybroker.machines.groups.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    partition_metadata_tombstone,
    subscription_record,
    target_record,
)
from kpybroker.machines.groups.consumer.regexes import RegexChange, update_regex
from kpybroker.machines.groups.consumer.target import assign, changes_assignor, last_target
from kpybroker.machines.groups.consumer.timeouts import fence, limit_rebalance, renew_session
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.finding import ends_classic, fenced, find_group, known_member, static_member
from kpybroker.machines.groups.epochs.member import AWAY_EPOCH, JOINING_EPOCH, NOTHING, SESSION
from kpybroker.machines.groups.epochs.refused import RequestRefused, tell_refusal
from kpybroker.machines.groups.epochs.target import MemberTarget, may_assign
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.resting import keep_answer
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.stories import JOINED, LEFT
from kpywire import error_codes
from kpywire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from kpywire.uuid import to_string

MS_OF_A_MEMBER = 2
"""A group that is not settled sends at most one heartbeat in this time on average."""

Upgrade = Callable[[GroupShard, Group, list[GroupRecord], GroupDecision], ConsumerGroup | None]
"""Turns a group of another kind into a consumer group, if it can; it adds the records to the list."""


def consumer_group_heartbeat(
    shard: GroupShard, request: GroupRequest, decision: GroupDecision, upgrade: Upgrade | None = None
) -> None:
    """Answer a heartbeat."""
    try:
        if request.message.member_epoch < JOINING_EPOCH:
            response = _leave(shard, request.message, decision)
        else:
            response = _stay(shard, request, decision, upgrade)
    except RequestRefused as refused:
        tell_refusal(shard, request, refused, decision)
        response = heartbeat_error(refused.error_code, refused.text)
    decision.reply(request.ticket, response)


def refuse_heartbeat(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer a heartbeat with an error."""
    decision.reply(request.ticket, heartbeat_error(error_code))


def heartbeat_error(error_code: int, text: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """The response with an error."""
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=error_code, error_message=text, member_epoch=0, heartbeat_interval_ms=0
    )


# Leaving


def _leave(shard: GroupShard, message: Any, decision: GroupDecision) -> ConsumerGroupHeartbeatResponse:
    group = find_group(shard, message.group_id, ConsumerGroup, CONSUMER)
    if message.instance_id is None:
        member = known_member(group.group_id, group.members, message.member_id)
    else:
        member = static_member(group.static_members, group.members, message.member_id, message.instance_id)
    if message.instance_id is not None and message.member_epoch == AWAY_EPOCH:
        decision.tell(group.group_id, LEFT, member, "for a while")
        leave_for_a_while(group, member, decision)
    else:
        decision.tell(group.group_id, LEFT, member)
        fence(shard, group, [member], decision)
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        member_id=member.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


# Staying


def _stay(
    shard: GroupShard, request: GroupRequest, decision: GroupDecision, upgrade: Upgrade | None
) -> ConsumerGroupHeartbeatResponse:
    message = request.message
    records: list[GroupRecord] = []
    group = _enter(shard, message, records, decision, upgrade)
    throw_if_full(group, message.member_id, message.instance_id, decision)
    member_id = message.member_id or new_member_id(decision)
    if message.instance_id is None:
        member = _dynamic_member(group, member_id, message)
    else:
        member = _static_member(group, member_id, message, records)
    updated = _updated(member, request)
    changes_names, change = write_subscription(shard, group, member, updated, records, request, decision)
    if member.member_epoch == 0 and message.member_epoch == JOINING_EPOCH:
        decision.tell(group.group_id, JOINED, updated)
    bumps = changes_names or change is RegexChange.RESOLVED or changes_assignor(group, member, updated, decision)
    target = advance(group, member, updated, records, decision, bumps=bumps)
    owned = message.topic_partitions
    has_changed = changes_names or change is not RegexChange.NONE
    updated = reconcile(shard, group, updated, target, owned, records, decision, subscription_changed=has_changed)
    decision.records += records
    settings = decision.settings_of(group.group_id)
    renew_session(shard, group.group_id, member_id, decision, settings.consumer_session_timeout_ms)
    is_full = (
        message.rebalance_timeout_ms != -1
        and (message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None)
        and message.topic_partitions is not None
    )
    is_sent = message.member_epoch == JOINING_EPOCH or is_full or member.assigned != updated.assigned
    usual_ms, unsettled_ms = _intervals_ms(settings, request.software)
    rests = target.is_old and group.rests_with(updated, target.epoch)
    response = ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        member_id=member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=_interval_ms(shard, group, usual_ms, unsettled_ms, rests=rests),
        assignment=_assignment(updated.assigned) if is_sent else None,
    )
    if rests and not group.regex_members and _only_beats(message):
        session = (SESSION, group.group_id, member_id)
        beat = Beat(session, settings.consumer_session_timeout_ms, usual_ms, unsettled_ms)
        keep_answer(shard, message, response, beat, decision)
    return response


def _only_beats(message: Any) -> bool:
    """Whether a heartbeat says only that its member is alive."""
    return (
        message.subscribed_topic_names is None
        and message.subscribed_topic_regex is None
        and message.topic_partitions is None
    )


def _intervals_ms(settings: GroupSettings, software: str) -> tuple[int, int]:
    """The configured interval, and that of a group that is not settled: 0 if the library may not beat often."""
    unsettled_ms = settings.consumer_unsettled_heartbeat_interval_ms if software in BEATING_OFTEN else 0
    return settings.consumer_heartbeat_interval_ms, unsettled_ms


def _interval_ms(shard: GroupShard, group: ConsumerGroup, usual_ms: int, unsettled_ms: int, *, rests: bool) -> int:
    """The time to the next heartbeat. If the library may beat often, it is short: while the group is not settled as far
    as the group is small, and afterwards as far as the node has few members."""
    if rests or not unsettled_ms:
        return at_rest_ms(usual_ms, unsettled_ms, shard.members_of_node())
    return min(usual_ms, max(unsettled_ms, len(group.members) * MS_OF_A_MEMBER))


def _enter(
    shard: GroupShard, message: Any, records: list[GroupRecord], decision: GroupDecision, upgrade: Upgrade | None
) -> ConsumerGroup:
    """The group that a member is in or joins. An empty group of the classic protocol is replaced."""
    group = shard.groups.get(message.group_id)
    joins = message.member_epoch == JOINING_EPOCH
    if group is None:
        if not joins:
            raise RequestRefused(error_codes.GROUP_ID_NOT_FOUND, f"Consumer group {message.group_id} not found.")
        return ConsumerGroup(message.group_id)
    membership = group.membership
    if isinstance(membership, ConsumerGroup):
        return membership
    if joins and ends_classic(group, records, decision):
        return ConsumerGroup(message.group_id)
    upgraded = upgrade(shard, group, records, decision) if joins and upgrade is not None else None
    if upgraded is not None:
        return upgraded
    raise RequestRefused(error_codes.GROUP_ID_NOT_FOUND, f"Group {message.group_id} is not a consumer group.")


def throw_if_full(group: ConsumerGroup, member_id: str, instance_id: str | None, decision: GroupDecision) -> None:
    """Raise Refused if a member that is not in the group finds it full. A static member may come back."""
    most = decision.settings.consumer_max_size
    if instance_id in group.static_members:
        return
    if len(group.members) >= most and member_id not in group.members:
        text = f"The consumer group has reached its maximum capacity of {most} members."
        raise RequestRefused(error_codes.GROUP_MAX_SIZE_REACHED, text)


def _dynamic_member(group: ConsumerGroup, member_id: str, message: Any) -> ConsumerMember:
    if message.member_epoch == JOINING_EPOCH:
        return group.members.get(member_id) or ConsumerMember(member_id)
    member = known_member(group.group_id, group.members, member_id)
    _check_epoch(member, message)
    return member


def _static_member(group: ConsumerGroup, member_id: str, message: Any, records: list[GroupRecord]) -> ConsumerMember:
    instance_id = message.instance_id
    if message.member_epoch != JOINING_EPOCH:
        member = static_member(group.static_members, group.members, member_id, instance_id)
        _check_epoch(member, message)
        return member
    replaced = group.static_member(instance_id)
    if replaced is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if replaced.classic is None and not is_away(replaced):
        text = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {replaced.member_id} member."
        )
        raise RequestRefused(error_codes.UNRELEASED_INSTANCE_ID, text)
    return replace_static(group, replaced, member_id, records)


def replace_static(
    group: ConsumerGroup, replaced: ConsumerMember, member_id: str, records: list[GroupRecord]
) -> ConsumerMember:
    """Put a static member that came back under another id in the place of the old one."""
    group_id = group.group_id
    member = replaced._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    records += member_tombstones(group_id, replaced.member_id)
    records.append(subscription_record(group_id, member))
    records.append(target_record(group_id, member_id, group.target.get(replaced.member_id, NOTHING)))
    records.append(current_record(group_id, member))
    return member


def _check_epoch(member: ConsumerMember, message: Any) -> None:
    """Check the epoch of a member. An answer may have been lost: then the previous epoch will do."""
    epoch = message.member_epoch
    if epoch == member.member_epoch:
        return
    is_last = epoch == member.previous_member_epoch and epoch < member.member_epoch
    if not is_last or not is_subset(message.topic_partitions, member.assigned):
        raise fenced(CONSUMER, epoch, member.member_epoch)


def _updated(member: ConsumerMember, request: GroupRequest) -> ConsumerMember:
    """The member with what the request changes. A field that is null stays as it is."""
    message = request.message
    changes: dict[str, Any] = {"client_id": request.client_id, "client_host": request.client_host, "classic": None}
    if message.instance_id is not None:
        changes["instance_id"] = message.instance_id
    if message.rack_id is not None:
        changes["rack_id"] = message.rack_id
    if message.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = message.rebalance_timeout_ms
    if message.server_assignor is not None:
        changes["server_assignor"] = message.server_assignor
    if message.subscribed_topic_names is not None:
        changes["topic_names"] = frozenset(message.subscribed_topic_names)
    if message.subscribed_topic_regex is not None:
        changes["topic_regex"] = message.subscribed_topic_regex
    return member._replace(**changes)


def write_subscription(
    shard: GroupShard,
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    records: list[GroupRecord],
    request: GroupRequest,
    decision: GroupDecision,
) -> tuple[bool, RegexChange]:
    """Write what is new of a member; whether its topic names changed, and what changed in its regular expression."""
    if updated != member:
        records.append(subscription_record(group.group_id, updated))
    change = update_regex(shard, group, member, updated, records, request.visible, decision)
    return updated.topic_names != member.topic_names, change


def advance(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    records: list[GroupRecord],
    decision: GroupDecision,
    *,
    bumps: bool,
) -> MemberTarget:
    """Move the group to its next epoch if subscriptions or topics changed; return the target of the member."""
    epoch, is_homogeneous = next_epoch(group, member, updated, records, decision, bumps=bumps)
    interval_ms = decision.settings_of(group.group_id).consumer_assignment_interval_ms
    if not may_assign(group, epoch, interval_ms, decision):
        return last_target(group, updated, epoch, decision)
    return assign(group, epoch, member, updated, records, decision, is_homogeneous=is_homogeneous)


def next_epoch(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    records: list[GroupRecord],
    decision: GroupDecision,
    *,
    bumps: bool,
) -> tuple[int, bool]:
    """The epoch of the group with ``updated`` in the place of ``member``, and whether all read the same topics then."""
    epoch = group.epoch
    topics = decision.topics
    checked = group.checked_version
    if not (bumps or checked is None or topics.has_changed((*group.by_name, *group.by_regex), checked)):
        return epoch, group.is_homogeneous
    subscriptions = group.subscriptions_with(member, updated)
    metadata_hash = topics.group_hash(subscriptions.topics)
    if bumps or metadata_hash != group.metadata_hash:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch, metadata_hash))
        decision.counts.count_rebalance(CONSUMER)
    group.checked_version = topics.version
    if group.has_partition_metadata:
        records.append(partition_metadata_tombstone(group.group_id))
    return epoch, subscriptions.is_homogeneous


def reconcile(  # noqa: PLR0913
    shard: GroupShard,
    group: ConsumerGroup,
    member: ConsumerMember,
    target: MemberTarget,
    owned: list[Any] | None,
    records: list[GroupRecord],
    decision: GroupDecision,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Move a member one step towards its target."""
    if not subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    step = MemberStep(group, member, target.target, target.epoch, owned, decision.topics)
    moved = step.take(subscription_changed=subscription_changed)
    if moved != member:
        records.append(current_record(group.group_id, moved))
        if moved.classic is None:
            limit_rebalance(shard, group.group_id, moved, decision)
    return moved


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in partitions.items()
        ]
    )


def new_member_id(decision: GroupDecision) -> str:
    """A random id in Kafka's notation, for clients that do not make their own (before version 1)."""
    bits = decision.rng.getrandbits(128)
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    return to_string(bits.to_bytes(16, "big"))
