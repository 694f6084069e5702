"""Heartbeat: a member shows that it is alive, and learns whether it has to rejoin.

(Kafka: ``GroupMetadataManager.classicGroupHeartbeat``.)
"""

from kpybroker.groups.classic.asleep import find_classic
from kpybroker.groups.classic.classic_group import State
from kpybroker.groups.decision import Decision
from kpybroker.groups.events import GroupRequest
from kpybroker.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.heartbeat import HeartbeatResponse


def heartbeat(shard: GroupShard, request: GroupRequest, decision: Decision) -> None:
    """Renew a member's session."""
    decision.reply(request.ticket, HeartbeatResponse(error_code=_renew(shard, request, decision)))


def _renew(shard: GroupShard, request: GroupRequest, decision: Decision) -> int:
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
    return error_codes.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else error_codes.NONE
