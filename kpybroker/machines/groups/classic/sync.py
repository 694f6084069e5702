"""SyncGroup: members wait for the leader's assignment, which is written before any member gets it.

(Kafka: ``GroupMetadataManager.classicGroupSync``.)
"""

from kpybroker.machines.groups.classic.asleep import find_classic
from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.member import ParkedRequest
from kpybroker.machines.groups.classic.rebalance import prepare_rebalance, refuse_syncs
from kpybroker.machines.groups.classic.responses import sync_error, sync_result
from kpybroker.machines.groups.classic.snapshot import group_record
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import CLASSIC_TYPE
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes


def sync_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a member that asks for its assignment; the leader sends those of all members."""
    message = request.message
    if not message.group_id:
        decision.reply(request.ticket, sync_error(error_codes.INVALID_GROUP_ID))
        return
    group = find_classic(shard, message.group_id, decision)
    if group is None or group.state is ClassicGroupState.EMPTY:
        decision.reply(request.ticket, sync_error(error_codes.UNKNOWN_MEMBER_ID))
        return
    error = _check(group, request)
    if error:
        decision.reply(request.ticket, sync_error(error))
    elif group.state is ClassicGroupState.STABLE:
        group.pending_sync.discard(message.member_id)
        decision.reply(request.ticket, sync_result(group, group.members[message.member_id].assignment))
    elif group.leader_id == message.member_id:
        _assign(group, request, decision)
    else:
        _park(group, request, decision)


def refuse_too_large(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Refuse an assignment that does not fit into a record. All waiting members get the error and the group starts
    over, as in Kafka."""
    group = find_classic(shard, request.message.group_id, decision)
    decision.reply(request.ticket, sync_error(error_codes.UNKNOWN_SERVER_ERROR))
    if group is not None and group.state is ClassicGroupState.COMPLETING_REBALANCE:
        refuse_syncs(group, error_codes.UNKNOWN_SERVER_ERROR, decision)
        prepare_rebalance(group, decision)


def _check(group: ClassicGroup, request: GroupRequest) -> int:
    message = request.message
    error = group.check_member(message.member_id, message.group_instance_id)
    if error:
        return error
    if message.generation_id != group.generation_id:
        return error_codes.ILLEGAL_GENERATION
    if message.protocol_type is not None and message.protocol_type != group.protocol_type:
        return error_codes.INCONSISTENT_GROUP_PROTOCOL
    if message.protocol_name is not None and group.protocol_name not in (None, message.protocol_name):
        return error_codes.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return error_codes.REBALANCE_IN_PROGRESS
    return error_codes.NONE


def _park(group: ClassicGroup, request: GroupRequest, decision: GroupDecision) -> None:
    member = group.members[request.message.member_id]
    group.pending_sync.discard(member.member_id)
    before, member.awaiting_sync = member.awaiting_sync, ParkedRequest(request.ticket, request.api_version)
    if before is not None:
        decision.reply(before.ticket, sync_error(error_codes.REBALANCE_IN_PROGRESS))


def _assign(group: ClassicGroup, request: GroupRequest, decision: GroupDecision) -> None:
    """Write the assignment. It becomes valid, and the waiting members are answered, when its record is applied."""
    assignments = {each.member_id: each.assignment for each in request.message.assignments}
    group.decided_at_ms = decision.timestamp_ms
    decision.records.append(group_record(group, assignments))
    decision.counts.count_rebalance(CLASSIC_TYPE)
    leader = group.members[request.message.member_id]
    tickets = [(leader, request.ticket)]
    if leader.awaiting_sync is not None:
        decision.reply(leader.awaiting_sync.ticket, sync_error(error_codes.REBALANCE_IN_PROGRESS))
    tickets += [
        (member, member.awaiting_sync.ticket)
        for member in group.members.values()
        if member.awaiting_sync is not None and member is not leader
    ]
    for member, ticket in tickets:
        decision.reply(ticket, sync_result(group, assignments.get(member.member_id, b"")))
        decision.set_timer(member.session, member.session_timeout_ms)
