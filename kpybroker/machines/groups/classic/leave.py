"""LeaveGroup (KIP-345, KIP-800): members leave before their sessions end, or an administrator removes them.

(Kafka: ``GroupMetadataManager.classicGroupLeave``.)
"""

from typing import Any

from kpybroker.machines.groups.classic.asleep import find_classic
from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.rebalance import complete_if_all_joined, forget_member, prepare_rebalance
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.stories import LEFT
from kpywire import error_codes
from kpywire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

_BATCHED_VERSION = 3


def leave_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Remove members. Each has its own error code."""
    message = request.message
    if not message.group_id:
        decision.reply(request.ticket, LeaveGroupResponse(error_code=error_codes.INVALID_GROUP_ID))
        return
    is_batched = request.api_version >= _BATCHED_VERSION
    leaving = message.members if is_batched else [MemberIdentity(member_id=message.member_id)]
    group = find_classic(shard, message.group_id, decision)
    errors = [_leave(group, identity, decision) for identity in leaving]
    if group is not None and error_codes.NONE in errors:
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            prepare_rebalance(group, decision)
        else:
            complete_if_all_joined(group, decision)
    if not is_batched:
        decision.reply(request.ticket, LeaveGroupResponse(error_code=errors[0]))
        return
    members = [
        MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
        )
        for identity, error_code in zip(leaving, errors, strict=True)
    ]
    decision.reply(request.ticket, LeaveGroupResponse(error_code=error_codes.NONE, members=members))


def _leave(group: ClassicGroup | None, identity: Any, decision: GroupDecision) -> int:
    if group is None:
        return error_codes.UNKNOWN_MEMBER_ID
    member_id = identity.member_id
    if not member_id:
        known_id = None
        if identity.group_instance_id is not None:
            known_id = group.static_members.get(identity.group_instance_id)
        if known_id is None:
            return error_codes.UNKNOWN_MEMBER_ID
        member_id = known_id
    elif member_id in group.pending_members:
        decision.timers.cancel(group.pending_members.pop(member_id))
        return error_codes.NONE
    else:
        error = group.check_member(member_id, identity.group_instance_id)
        if error:
            return error
    decision.tell(group.group_id, LEFT, group.members[member_id], identity.reason or "")
    forget_member(group, group.members[member_id], decision)
    return error_codes.NONE


def refuse(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer a LeaveGroup as a whole with an error."""
    decision.reply(request.ticket, LeaveGroupResponse(error_code=error_code))
