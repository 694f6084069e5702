"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group (KIP-848).

(Kafka: ``classicGroupJoinToConsumerGroup`` and its like.) The member's epoch is its generation. The coordinator
assigns, so a member is never leader, and it rejoins once to give up partitions and once to get others.
"""

from typing import Any

from kpybroker.machines.groups.classic.responses import join_error, sync_error
from kpybroker.machines.groups.consumer.consumer_group import CONSUMER, ConsumerGroup
from kpybroker.machines.groups.consumer.heartbeat import (
    advance,
    new_member_id,
    next_epoch,
    reconcile,
    replace_static,
    throw_if_full,
    write_subscription,
)
from kpybroker.machines.groups.consumer.member import UNRELEASED, UNREVOKED, ClassicMember, ConsumerMember
from kpybroker.machines.groups.consumer.reconcile import is_waiting
from kpybroker.machines.groups.consumer.regexes import RegexChange
from kpybroker.machines.groups.consumer.timeouts import JOIN, SYNC, fence, limit_classic, renew_session
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.finding import known_member, static_member
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.epochs.target import MemberTarget
from kpybroker.machines.groups.epochs.timeouts import cancel, has_limit
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.mixed.downgrade import downgrade_replacing, may_replace
from kpybroker.machines.groups.mixed.protocol import names_of, owned_by, read_subscription, version_of, write_assignment
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.errors import Malformed
from kpywire.messages.heartbeat import HeartbeatResponse
from kpywire.messages.join_group import JoinGroupResponse
from kpywire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kpywire.messages.sync_group import SyncGroupResponse

DISABLED = "disabled"
_MEMBER_ID_REQUIRED_VERSION = 4
_BATCHED_VERSION = 3


def join(shard: GroupShard, group: ConsumerGroup, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a classic member that joins or rejoins."""
    try:
        response = _join(shard, group, request, decision)
    except RequestRefused as refused:
        response = join_error(request.api_version, refused.error_code)
    except Malformed:  # Kafka's answer to an embedded subscription that ends too early
        response = join_error(request.api_version, error_codes.INCONSISTENT_GROUP_PROTOCOL)
    decision.reply(request.ticket, response)


def _join(shard: GroupShard, group: ConsumerGroup, request: GroupRequest, decision: GroupDecision) -> JoinGroupResponse:
    message = request.message
    instance_id = message.group_instance_id
    protocols = tuple((each.name, each.metadata) for each in message.protocols)
    if decision.settings.consumer_migration_policy == DISABLED:
        raise RequestRefused(error_codes.INCONSISTENT_GROUP_PROTOCOL, "The group migration is disabled.")
    member_id = message.member_id or new_member_id(decision)
    throw_if_full(group, member_id, message.group_instance_id, decision)
    if not _supports(group, message.protocol_type, names_of(protocols)):
        raise RequestRefused(error_codes.INCONSISTENT_GROUP_PROTOCOL, "The member's protocols are not supported.")
    if not message.member_id and instance_id is None and request.api_version >= _MEMBER_ID_REQUIRED_VERSION:
        return join_error(request.api_version, error_codes.MEMBER_ID_REQUIRED, member_id)
    records: list[GroupRecord] = []
    member = _member(group, message, member_id, records)
    replaced = group.static_member(instance_id)
    is_downgrade = replaced is not None and may_replace(group, replaced, protocols, decision)
    subscription = read_subscription(protocols[0][1])
    updated = member._replace(
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=getattr(subscription, "rack_id", None) or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if message.rebalance_timeout_ms == -1
        else message.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMember(message.session_timeout_ms, protocols),
    )
    changes_names, change = write_subscription(shard, group, member, updated, records, request, decision)
    bumps = changes_names or change is not RegexChange.NONE
    owned = owned_by(subscription, decision.topics)
    group_id = group.group_id
    if replaced is not None and is_downgrade:
        epoch, _ = next_epoch(group, member, updated, records, decision, bumps=bumps)
        rebalances = group.assignment_epoch < epoch
        if not rebalances:
            target = MemberTarget(group.assignment_epoch, group.target_of(updated))
            updated = reconcile(shard, group, updated, target, owned, records, decision, subscription_changed=bumps)
        decision.records += records
        downgrade_replacing(group, replaced, updated, decision, rebalances=rebalances)
    else:
        target = advance(group, member, updated, records, decision, bumps=bumps)
        updated = reconcile(shard, group, updated, target, owned, records, decision, subscription_changed=bumps)
        decision.records += records
        cancel(shard, JOIN, group_id, member_id, decision)
        renew_session(shard, group_id, member_id, decision, message.session_timeout_ms)
        limit_classic(shard, SYNC, group_id, member_id, decision, message.rebalance_timeout_ms)
    return JoinGroupResponse(
        error_code=error_codes.NONE,
        generation_id=updated.member_epoch,
        protocol_type=CONSUMER,
        protocol_name=protocols[0][0],
        leader="",
        member_id=member_id,
        members=[],
    )


def _supports(group: ConsumerGroup, protocol_type: str, names: list[str]) -> bool:
    """Whether all classic members of the group share one of these protocols."""
    if protocol_type != CONSUMER:
        return False
    classic = [set(names_of(each.classic.protocols)) for each in group.members.values() if each.classic is not None]
    return any(all(name in each for each in classic) for name in names)


def _member(group: ConsumerGroup, message: Any, member_id: str, records: list[GroupRecord]) -> ConsumerMember:
    instance_id = message.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if message.member_id:
        return static_member(group.static_members, group.members, member_id, instance_id)
    replaced = group.static_member(instance_id)
    if replaced is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    return replace_static(group, replaced, member_id, records)


def sync(shard: GroupShard, group: ConsumerGroup, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a classic member that asks for its assignment."""
    message = request.message
    try:
        member = _classic_member(group, message)
        classic = member.classic
        assert classic is not None
        for given, known in ((message.protocol_type, CONSUMER), (message.protocol_name, classic.protocols[0][0])):
            if given is not None and given != known:
                raise RequestRefused(error_codes.INCONSISTENT_GROUP_PROTOCOL, "Another protocol than that of the join.")
        if group.assignment_epoch > member.member_epoch and member.state != UNREVOKED:
            _limit_join(shard, group, member, decision)
            raise RequestRefused(error_codes.REBALANCE_IN_PROGRESS, "The member has to rejoin.")
        assignment = write_assignment(member.assigned, version_of(classic.protocols[0][1]), decision.topics)
    except RequestRefused as refused:
        decision.reply(request.ticket, sync_error(refused.error_code))
        return
    except Malformed:
        decision.reply(request.ticket, sync_error(error_codes.UNKNOWN_SERVER_ERROR))
        return
    cancel(shard, SYNC, group.group_id, member.member_id, decision)
    renew_session(shard, group.group_id, member.member_id, decision, classic.session_timeout_ms)
    response = SyncGroupResponse(
        error_code=error_codes.NONE,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignment=assignment,
    )
    decision.reply(request.ticket, response)


def heartbeat(shard: GroupShard, group: ConsumerGroup, request: GroupRequest, decision: GroupDecision) -> None:
    """Renew the session of a classic member, and say whether it has to rejoin."""
    try:
        member = _classic_member(group, request.message)
    except RequestRefused as refused:
        decision.reply(request.ticket, HeartbeatResponse(error_code=refused.error_code))
        return
    assert member.classic is not None
    renew_session(shard, group.group_id, member.member_id, decision, member.classic.session_timeout_ms)
    error = error_codes.NONE
    has_more = member.state == UNRELEASED and not is_waiting(group, member)
    if member.member_epoch < group.assignment_epoch or member.state == UNREVOKED or has_more:
        error = error_codes.REBALANCE_IN_PROGRESS
        _limit_join(shard, group, member, decision)
    decision.reply(request.ticket, HeartbeatResponse(error_code=error))


def leave(shard: GroupShard, group: ConsumerGroup, request: GroupRequest, decision: GroupDecision) -> None:
    """Remove members. Each has its own error code."""
    message = request.message
    is_batched = request.api_version >= _BATCHED_VERSION
    leaving = message.members if is_batched else [MemberIdentity(member_id=message.member_id)]
    members: dict[str, ConsumerMember] = {}
    answers = []
    for identity in leaving:
        error = error_codes.NONE
        try:
            member = _leaving_member(group, identity)
            members[member.member_id] = member
        except RequestRefused as refused:
            error = refused.error_code
        answers.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
        )
    if members:
        fence(shard, group, list(members.values()), decision)
    if is_batched:
        decision.reply(request.ticket, LeaveGroupResponse(error_code=error_codes.NONE, members=answers))
    else:
        decision.reply(request.ticket, LeaveGroupResponse(error_code=answers[0].error_code))


def _leaving_member(group: ConsumerGroup, identity: Any) -> ConsumerMember:
    if identity.group_instance_id is None:
        return known_member(group.group_id, group.members, identity.member_id)
    if identity.member_id:
        return static_member(group.static_members, group.members, identity.member_id, identity.group_instance_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise RequestRefused(error_codes.UNKNOWN_MEMBER_ID, f"Instance id {identity.group_instance_id} is unknown.")
    return member


def _classic_member(group: ConsumerGroup, message: Any) -> ConsumerMember:
    """The classic member that sent a request of its generation. Raises Refused."""
    if message.group_instance_id is None:
        member = known_member(group.group_id, group.members, message.member_id)
    else:
        member = static_member(group.static_members, group.members, message.member_id, message.group_instance_id)
    if member.classic is None:
        text = f"Member {member.member_id} does not use the classic protocol."
        raise RequestRefused(error_codes.UNKNOWN_MEMBER_ID, text)
    if message.generation_id != member.member_epoch:
        raise RequestRefused(error_codes.ILLEGAL_GENERATION, "The generation is not the member's epoch.")
    return member


def _limit_join(shard: GroupShard, group: ConsumerGroup, member: ConsumerMember, decision: GroupDecision) -> None:
    if not has_limit(shard, JOIN, group.group_id, member.member_id):
        limit_classic(shard, JOIN, group.group_id, member.member_id, decision, member.rebalance_timeout_ms)
