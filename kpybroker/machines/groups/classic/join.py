"""JoinGroup (KIP-62, KIP-345, KIP-394, KIP-559, KIP-814): new members, returning ones and static ones.

The order of the checks is Kafka's (``GroupCoordinatorService.joinGroup``, ``GroupMetadataManager.classicGroupJoin``).
"""

from typing import Final

from kpybroker.machines.groups.classic.asleep import AsleepGroup, wake
from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.member import ClassicGroupMember, ParkedRequest, Protocols
from kpybroker.machines.groups.classic.rebalance import (
    complete_if_all_joined,
    end_pending,
    end_session,
    forget_member,
    park_join,
    prepare_rebalance,
    rebalance_or_complete,
    refuse_waiting,
)
from kpybroker.machines.groups.classic.responses import join_error, join_result
from kpybroker.machines.groups.classic.snapshot import group_record, new_group_record
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import NO_MEMBERS, Group
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.stories import JOINED, REJOINED
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes
from kpywire.messages.join_group import JoinGroupRequest

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""How long a new member may wait for its first generation."""

PENDING_MEMBERS_KEPT: Final = 10_000
"""How many unused member ids one group remembers. Beyond that the oldest is forgotten."""

LONGEST_MEMBER_ID_BYTES: Final = 0x7FFF
"""The longest string that the wire format and a record can hold. Client ids and instance ids may be nearly as long."""

_MEMBER_ID_REQUIRED_VERSION: Final = 4
_SKIP_ASSIGNMENT_VERSION: Final = 9


def join_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a member that asks to be in the next generation."""
    message = request.message
    settings = decision.settings
    if not message.group_id:
        refuse(request, error_codes.INVALID_GROUP_ID, decision, message.member_id)
    elif not settings.min_session_timeout_ms <= message.session_timeout_ms <= settings.max_session_timeout_ms:
        refuse(request, error_codes.INVALID_SESSION_TIMEOUT, decision, message.member_id)
    else:
        group = shard.groups.get(message.group_id)
        classic = _create(shard, request, decision) if group is None else _enter(group, request, decision)
        if classic is not None:
            _join(classic, request, decision)


def _create(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> ClassicGroup | None:
    """Make a group for its first member. A member that has an id is refused, since it was in a group that is gone."""
    message = request.message
    if message.member_id:
        refuse(request, error_codes.UNKNOWN_MEMBER_ID, decision, message.member_id)
        return None
    group = shard.groups[message.group_id] = Group(message.group_id)
    classic = wake(group, decision)
    classic.is_new = True
    return classic


def _enter(group: Group, request: GroupRequest, decision: GroupDecision) -> ClassicGroup | None:
    """The classic group that a member joins. A group of another kind gives way if it has no members. If it does not,
    the request is refused."""
    membership = group.membership
    if isinstance(membership, ClassicGroup):
        return membership
    if membership is NO_MEMBERS or isinstance(membership, AsleepGroup):
        return wake(group, decision)
    member_id = request.message.member_id
    if not membership.gives_way(decision):
        refuse(request, error_codes.INCONSISTENT_GROUP_PROTOCOL, decision)
        return None
    if member_id:
        refuse(request, error_codes.UNKNOWN_MEMBER_ID, decision, member_id)
        return None
    decision.records += membership.tombstones(group.group_id)
    successor = group.successor
    if not isinstance(successor, ClassicGroup):
        successor = group.successor = ClassicGroup(group.group_id, decision.timestamp_ms)
        successor.is_new = True
    return successor


def _join(classic: ClassicGroup, request: GroupRequest, decision: GroupDecision) -> None:
    message = request.message
    if not _has_room(classic, message.member_id, decision):
        member = classic.members.get(message.member_id)
        if member is not None:
            forget_member(classic, member, decision)
        _forget_pending(classic, message.member_id, decision)
        refuse(request, error_codes.GROUP_MAX_SIZE_REACHED, decision)
    elif not message.member_id:
        _join_new(classic, request, decision)
    else:
        _join_known(classic, request, decision)
    if classic.is_new:
        decision.records.append(new_group_record(classic))


def _has_room(group: ClassicGroup, member_id: str, decision: GroupDecision) -> bool:
    """Whether ``group.max.size`` admits this member. While a group is too large, members that rejoin come first."""
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.EMPTY:
        return True
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        is_waiting = member is not None and member.awaiting_join is not None
        return is_waiting or group.awaiting_joins < decision.settings.max_size
    return member is not None or len(group.members) < decision.settings.max_size


def _join_new(group: ClassicGroup, request: GroupRequest, decision: GroupDecision) -> None:
    message = request.message
    protocols = _protocols(message)
    if not group.supports(message.protocol_type, protocols):
        refuse(request, error_codes.INCONSISTENT_GROUP_PROTOCOL, decision)
        return
    instance_id = message.group_instance_id
    member_id = f"{request.client_id if instance_id is None else instance_id}-{decision.new_uuid()}"
    if len(member_id.encode()) > LONGEST_MEMBER_ID_BYTES:
        refuse(request, error_codes.UNKNOWN_SERVER_ERROR, decision)
    elif instance_id is not None:
        replaced_id = group.static_members.get(instance_id)
        if replaced_id is None:
            _add(group, request, member_id, decision)
        else:
            _join_replacing(group, request, replaced_id, member_id, decision)
    elif request.api_version >= _MEMBER_ID_REQUIRED_VERSION:
        _add_pending(group, member_id, message.session_timeout_ms, decision)
        refuse(request, error_codes.MEMBER_ID_REQUIRED, decision, member_id)
    else:
        _add(group, request, member_id, decision)


def _join_known(group: ClassicGroup, request: GroupRequest, decision: GroupDecision) -> None:
    message = request.message
    member_id = message.member_id
    protocols = _protocols(message)
    if not group.supports(message.protocol_type, protocols):
        refuse(request, error_codes.INCONSISTENT_GROUP_PROTOCOL, decision, member_id)
        return
    if member_id in group.pending_members:
        if message.group_instance_id is not None:
            refuse(request, error_codes.UNKNOWN_SERVER_ERROR, decision)
            return
        _add(group, request, member_id, decision)
        return
    error = group.check_member(member_id, message.group_instance_id)
    if error:
        refuse(request, error, decision, member_id)
        return
    member = group.members[member_id]
    is_unchanged = tuple(member.protocols) == protocols
    is_current = group.state is ClassicGroupState.COMPLETING_REBALANCE or (
        group.state is ClassicGroupState.STABLE and group.leader_id != member_id
    )
    if is_unchanged and is_current:
        decision.reply(request.ticket, join_result(group, member_id, request.api_version))
    else:
        if group.state is not ClassicGroupState.PREPARING_REBALANCE:
            decision.tell(group.group_id, REJOINED, member, message.reason or "")
        group.update(member, protocols, _rebalance_timeout_ms(request), message.session_timeout_ms)
        park_join(group, member, ParkedRequest(request.ticket, request.api_version), decision)
        rebalance_or_complete(group, decision)


def _join_replacing(
    group: ClassicGroup, request: GroupRequest, replaced_id: str, member_id: str, decision: GroupDecision
) -> None:
    """Let a restarted static member join. If nothing changes for the other members, they do not have to rejoin."""
    message = request.message
    leader_before = group.leader_id
    replaced = group.members[replaced_id]
    member = ClassicGroupMember(
        member_id,
        replaced.group_instance_id,
        replaced.client_id,
        replaced.client_host,
        _rebalance_timeout_ms(request),
        message.session_timeout_ms,
        _protocols(message),
        GroupTimer(end_session, group, member_id),
        replaced.assignment,
    )
    decision.timers.cancel(replaced.session)
    decision.set_timer(member.session, replaced.session_timeout_ms)
    group.replace(replaced_id, member)
    refuse_waiting(replaced, error_codes.FENCED_INSTANCE_ID, decision, replaced_id)
    if group.state is ClassicGroupState.STABLE and group.select_protocol() == group.protocol_name:
        decision.records.append(
            group_record(group, {each.member_id: each.assignment for each in group.members.values()})
        )
        skips = request.api_version >= _SKIP_ASSIGNMENT_VERSION
        decision.reply(
            request.ticket,
            join_result(
                group,
                member_id,
                request.api_version,
                leader_id=None if skips else leader_before,
                skip_assignment=skips and group.leader_id == member_id,
                with_members=skips,
            ),
        )
        return
    park_join(group, member, ParkedRequest(request.ticket, request.api_version), decision)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_if_all_joined(group, decision)
    else:
        prepare_rebalance(group, decision)


def _add(group: ClassicGroup, request: GroupRequest, member_id: str, decision: GroupDecision) -> None:
    message = request.message
    member = ClassicGroupMember(
        member_id,
        message.group_instance_id,
        request.client_id,
        request.client_host,
        _rebalance_timeout_ms(request),
        message.session_timeout_ms,
        _protocols(message),
        GroupTimer(end_session, group, member_id),
    )
    member.is_new = True
    decision.tell(group.group_id, JOINED, member, message.reason or "")
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.previous_state is ClassicGroupState.EMPTY:
        group.new_member_added = True
    if not group.members:
        group.protocol_type = message.protocol_type
    _forget_pending(group, member_id, decision)
    group.add(member)
    park_join(group, member, ParkedRequest(request.ticket, request.api_version), decision)
    decision.set_timer(member.session, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_complete(group, decision)


def _add_pending(group: ClassicGroup, member_id: str, session_timeout_ms: int, decision: GroupDecision) -> None:
    """Remember a member id that was given out. The client joins again with it (KIP-394)."""
    if len(group.pending_members) >= PENDING_MEMBERS_KEPT:
        _forget_pending(group, next(iter(group.pending_members)), decision)
    timer = group.pending_members[member_id] = GroupTimer(end_pending, group, member_id)
    decision.set_timer(timer, session_timeout_ms)


def _forget_pending(group: ClassicGroup, member_id: str, decision: GroupDecision) -> None:
    timer = group.pending_members.pop(member_id, None)
    if timer is not None:
        decision.timers.cancel(timer)


def _protocols(message: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, protocol.metadata) for protocol in message.protocols)


def _rebalance_timeout_ms(request: GroupRequest) -> int:
    """The rebalance timeout of a request. Version 0 has none: there it is the session timeout."""
    message = request.message
    timeout_ms: int = message.rebalance_timeout_ms if request.api_version >= 1 else message.session_timeout_ms
    return timeout_ms


def refuse(request: GroupRequest, error_code: int, decision: GroupDecision, member_id: str = "") -> None:
    decision.reply(request.ticket, join_error(request.api_version, error_code, member_id))
