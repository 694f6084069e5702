"""DescribeGroups and ListGroups (KIP-518, KIP-848, KIP-1043): what a group looks like from outside."""

from kpybroker.groups.classic_group import State
from kpybroker.groups.decision import Decision
from kpybroker.groups.events import DescribeGroup, GroupRequest, ListGroups
from kpybroker.groups.group import Group
from kpybroker.groups.lookup import find_classic, is_abandoned
from kpybroker.groups.shard import Shard
from kpywire import error_codes
from kpywire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kpywire.messages.list_groups import ListedGroup

_NOT_FOUND_VERSION = 6
_CLASSIC_TYPE = "classic"


def describe_group(shard: Shard, request: GroupRequest, decision: Decision) -> None:
    """Answer a `DescribeGroup`. What the members subscribe is shown of a stable group only."""
    message: DescribeGroup = request.message
    group = find_classic(shard, message.group_id, decision)
    if group is None:
        decision.reply(request.ticket, _not_found(shard, message.group_id, request.api_version))
        return
    is_stable = group.state is State.STABLE
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    described = DescribedGroup(
        error_code=error_codes.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=members,
    )
    decision.reply(request.ticket, described)


def list_groups(shard: Shard, request: GroupRequest, decision: Decision) -> None:
    """Answer a `ListGroups`."""
    message: ListGroups = request.message
    states = {state.lower() for state in message.states}
    types = {kind.lower() for kind in message.types}
    listed = []
    for group in shard.groups.values():
        kind, state, protocol_type = _summary(shard, group, decision)
        if (not states or state.lower() in states) and (not types or kind.lower() in types):
            listed.append(
                ListedGroup(group_id=group.group_id, protocol_type=protocol_type, group_state=state, group_type=kind)
            )
    decision.reply(request.ticket, listed)


def _summary(shard: Shard, group: Group, decision: Decision) -> tuple[str, str, str]:
    """(type, state, protocol type). Members of a group that nobody asked for yet are left asleep."""
    if group.foreign is not None:
        state = State.EMPTY if is_abandoned(shard, group, decision) else State.STABLE
        return group.foreign.kind, state.value, group.foreign.kind
    if group.classic is not None:
        return _CLASSIC_TYPE, group.classic.state.value, group.classic.protocol_type or ""
    if group.recorded is None:
        return _CLASSIC_TYPE, State.EMPTY.value, ""
    state = State.STABLE if group.recorded.members else State.EMPTY
    return _CLASSIC_TYPE, state.value, group.recorded.protocol_type


def _not_found(shard: Shard, group_id: str, api_version: int) -> DescribedGroup:
    described = DescribedGroup(
        error_code=error_codes.NONE,
        group_id=group_id,
        group_state=State.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )
    if api_version >= _NOT_FOUND_VERSION:
        is_foreign = group_id in shard.groups
        described.error_code = error_codes.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {group_id} {'is not a classic group' if is_foreign else 'not found'}."
    return described
