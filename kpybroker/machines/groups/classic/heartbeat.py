"""Heartbeat: a member shows that it is alive, and learns whether it has to rejoin.

(Kafka: ``GroupMetadataManager.classicGroupHeartbeat``.)
"""

from typing import Any, Final

from kpybroker.machines.groups.classic.asleep import find_classic
from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.heartbeat import HeartbeatResponse

_ALIVE: Final = HeartbeatResponse(error_code=error_codes.NONE)


def heartbeat(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Renew a member's session."""
    error = _renew(shard, request, decision)
    decision.reply(request.ticket, HeartbeatResponse(error_code=error) if error else _ALIVE)


def alive(shard: GroupShard, message: Any, now_ms: int) -> HeartbeatResponse | None:
    """The answer to a member of a group that is not rebalancing, whose session is renewed. None if the heartbeat is to
    be decided."""
    group = shard.groups.get(message.group_id)
    classic = None if group is None else group.membership
    if not isinstance(classic, ClassicGroup) or classic.state is ClassicGroupState.PREPARING_REBALANCE:
        return None
    if message.generation_id != classic.generation_id:
        return None
    if classic.check_member(message.member_id, message.group_instance_id):
        return None
    member = classic.members[message.member_id]
    shard.timers.set(member.session, now_ms + member.session_timeout_ms)
    return _ALIVE


def _renew(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> int:
    message = request.message
    if not message.group_id:
        return error_codes.INVALID_GROUP_ID
    group = find_classic(shard, message.group_id, decision)
    if group is None:
        return error_codes.UNKNOWN_MEMBER_ID
    error = group.check_member(message.member_id, message.group_instance_id)
    if error:
        return error
    if message.generation_id != group.generation_id:
        return error_codes.ILLEGAL_GENERATION
    member = group.members[message.member_id]
    decision.set_timer(member.session, member.session_timeout_ms)
    return (
        error_codes.REBALANCE_IN_PROGRESS if group.state is ClassicGroupState.PREPARING_REBALANCE else error_codes.NONE
    )
