"""Responses to joins and syncs, in the form of each version."""

from typing import Final

from kpybroker.machines.groups.classic.classic_group import ClassicGroup
from kpywire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kpywire.messages.sync_group import SyncGroupResponse

_NULLABLE_PROTOCOL_VERSION: Final = 7


def join_error(api_version: int, error_code: int, member_id: str = "") -> JoinGroupResponse:
    """A refused JoinGroup."""
    return JoinGroupResponse(
        error_code=error_code,
        leader="",
        member_id=member_id,
        members=[],
        protocol_name=None if api_version >= _NULLABLE_PROTOCOL_VERSION else "",
    )


def join_result(
    group: ClassicGroup,
    member_id: str,
    api_version: int,
    *,
    leader_id: str | None = None,
    skip_assignment: bool = False,
    with_members: bool = True,
) -> JoinGroupResponse:
    """The new generation as one member receives it; the leader also gets the list of all members. ``leader_id`` names
    another leader than the current one."""
    protocol_name = group.protocol_name
    if protocol_name is None and api_version < _NULLABLE_PROTOCOL_VERSION:
        protocol_name = ""
    is_leader = group.leader_id == member_id
    return JoinGroupResponse(
        error_code=0,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=protocol_name,
        leader=leader_id if leader_id is not None else group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_members(group) if is_leader and with_members else [],
    )


def _members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    protocol_name = group.protocol_name
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in group.members.values()
    ]


def sync_error(error_code: int) -> SyncGroupResponse:
    """A refused SyncGroup."""
    return SyncGroupResponse(error_code=error_code, assignment=b"")


def sync_result(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """The response with a member's assignment."""
    return SyncGroupResponse(
        error_code=0, protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )
