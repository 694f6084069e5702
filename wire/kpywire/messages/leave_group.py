"""LeaveGroup: API key 13."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@struct
class MemberIdentity:
    member_id: string  # The member ID to remove from the group.
    group_instance_id: string | None = field(default=None)  # The group instance ID to remove from the group.
    reason: string | None = field("5+", default=None, ignorable=True)  # The reason why the member left the group.


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Version 3 defines batch processing scheme with group.instance.id + member.id for identity
    Version 4 is the first flexible version.
    Version 5 adds the Reason field (KIP-800).
    """

    group_id: string  # The ID of the group to leave.
    member_id: string = field("0-2", default="")  # The member ID to remove from the group.
    members: list[MemberIdentity] = field("3+", default=[])  # List of leaving member identities.


@struct
class MemberResponse:
    member_id: string  # The member ID to remove from the group.
    group_instance_id: string | None  # The group instance ID to remove from the group.
    error_code: i16  # The error code, or 0 if there was no error.


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """Version 1 adds the throttle time.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Starting in version 3, we will make leave group request into batch mode and add group.instance.id.
    Version 4 is the first flexible version.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("1+", default=0, ignorable=True)
    error_code: i16  # The error code, or 0 if there was no error.
    members: list[MemberResponse] = field("3+", default=[])  # List of leaving member responses.
