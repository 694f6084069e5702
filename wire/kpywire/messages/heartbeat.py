"""Heartbeat: API key 12."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Starting from version 3, we add a new field called groupInstanceId to indicate member identity across
    restarts.
    Version 4 is the first flexible version.
    """

    group_id: string  # The group id.
    generation_id: i32  # The generation of the group.
    member_id: string  # The member ID.
    # The unique identifier of the consumer instance provided by end user.
    group_instance_id: string | None = field("3+", default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """Version 1 adds throttle time.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Starting from version 3, heartbeatRequest supports a new field called groupInstanceId to indicate member
    identity across restarts.
    Version 4 is the first flexible version.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("1+", default=0, ignorable=True)
    error_code: i16  # The error code, or 0 if there was no error.
