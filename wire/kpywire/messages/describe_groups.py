"""DescribeGroups: API key 15."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Starting in version 3, authorized operations can be requested.
    Starting in version 4, the response will include group.instance.id info for members.
    Version 5 is the first flexible version.
    Version 6 returns error code GROUP_ID_NOT_FOUND if the group ID is not found (KIP-1043).
    """

    groups: list[string]  # The names of the groups to describe.
    include_authorized_operations: bool = field("3+", default=False)  # Whether to include authorized operations.


@struct
class DescribedGroupMember:
    member_id: string  # The member id.
    # The unique identifier of the consumer instance provided by end user.
    group_instance_id: string | None = field("4+", default=None, ignorable=True)
    client_id: string  # The client ID used in the member's latest join group request.
    client_host: string  # The client host.
    # The metadata corresponding to the current group protocol in use.
    # This is currently only provided if the group is in the Stable state.
    member_metadata: bytes
    # The current assignment provided by the group leader.
    # This is currently only provided if the group is in the Stable state.
    member_assignment: bytes


@struct
class DescribedGroup:
    error_code: i16  # The describe error, or 0 if there was no error.
    # The describe error message, or null if there was no error.
    error_message: string | None = field("6+", default=None)
    group_id: string  # The group ID string.
    group_state: string  # The group state string, or the empty string.
    protocol_type: string  # The group protocol type, or the empty string.
    # The group protocol data, or the empty string.
    # ProtocolData is currently only filled in if the group state is in the Stable state.
    protocol_data: string
    # The group members.
    # N.B. If the group is in the Dead state, the members array will always be empty.
    members: list[DescribedGroupMember]
    # 32-bit bitfield to represent authorized operations for this group.
    authorized_operations: i32 = field("3+", default=-0x8000_0000)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """Version 1 added throttle time.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Starting in version 3, brokers can send authorized operations.
    Starting in version 4, the response will optionally include group.instance.id info for members.
    Version 5 is the first flexible version.
    Version 6 returns error code GROUP_ID_NOT_FOUND if the group ID is not found (KIP-1043).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup]  # Each described group.
