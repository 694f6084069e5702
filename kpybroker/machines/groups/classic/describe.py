"""DescribeGroups (KIP-1043): how a classic group appears to clients."""

from typing import NamedTuple

from kpybroker.machines.groups.classic.asleep import find_classic
from kpybroker.machines.groups.classic.classic_group import ClassicGroupState
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.describe_groups import DescribedGroup, DescribedGroupMember

_NOT_FOUND_VERSION = 6


class DescribeGroup(NamedTuple):
    """Describe one group. It is answered by a ``DescribedGroup``."""

    group_id: str


def describe_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `DescribeGroup`. Subscriptions are shown for a stable group only."""
    message: DescribeGroup = request.message
    group = find_classic(shard, message.group_id, decision)
    if group is None:
        decision.reply(request.ticket, _not_found(shard, message.group_id, request.api_version))
        return
    is_stable = group.state is ClassicGroupState.STABLE
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


def _not_found(shard: GroupShard, group_id: str, api_version: int) -> DescribedGroup:
    described = DescribedGroup(
        error_code=error_codes.NONE,
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )
    if api_version >= _NOT_FOUND_VERSION:
        is_of_another_kind = group_id in shard.groups
        described.error_code = error_codes.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {group_id} {'is not a classic group' if is_of_another_kind else 'not found'}."
    return described
