"""SyncGroup: API key 14."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    member_id: string  # The ID of the member to assign.
    assignment: bytes  # The member assignment.


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """Starting from version 3, we add a new field called groupInstanceId to indicate member identity across
    restarts.
    Version 4 is the first flexible version.
    Starting from version 5, the client sends the Protocol Type and the Protocol Name to the broker (KIP-559). The
    broker will reject the request if they are inconsistent with the Type and Name known by the broker.
    """

    group_id: string  # The unique group identifier.
    generation_id: i32  # The generation of the group.
    member_id: string  # The member ID assigned by the group.
    # The unique identifier of the consumer instance provided by end user.
    group_instance_id: string | None = field("3+", default=None)
    protocol_type: string | None = field("5+", default=None, ignorable=True)  # The group protocol type.
    protocol_name: string | None = field("5+", default=None, ignorable=True)  # The group protocol name.
    assignments: list[SyncGroupRequestAssignment]  # Each assignment.


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """Version 1 adds throttle time.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Starting from version 3, syncGroupRequest supports a new field called groupInstanceId to indicate member
    identity across restarts.
    Version 4 is the first flexible version.
    Starting from version 5, the broker sends back the Protocol Type and the Protocol Name to the client
    (KIP-559).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("1+", default=0, ignorable=True)
    error_code: i16  # The error code, or 0 if there was no error.
    protocol_type: string | None = field("5+", default=None, ignorable=True)  # The group protocol type.
    protocol_name: string | None = field("5+", default=None, ignorable=True)  # The group protocol name.
    assignment: bytes  # The member assignment.
