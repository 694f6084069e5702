"""JoinGroup: API key 11."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    name: string  # The protocol name.
    metadata: bytes  # The protocol metadata.


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Version 1 adds RebalanceTimeoutMs.
    Starting from version 4, the client needs to issue a second request to join group
    Starting from version 5, we add a new field called groupInstanceId to indicate member identity across
    restarts. with assigned id.
    Version 6 is the first flexible version.
    Version 8 adds the Reason field (KIP-800).
    """

    group_id: string  # The group identifier.
    # The coordinator considers the consumer dead if it receives no heartbeat after this timeout in milliseconds.
    session_timeout_ms: i32
    # The maximum time in milliseconds that the coordinator will wait for each member to rejoin when rebalancing the
    # group.
    # Note: if RebalanceTimeoutMs is not present, SessionTimeoutMs should be used instead. The default of -1 here is
    # just intended as a placeholder.
    rebalance_timeout_ms: i32 = field("1+", default=-1, ignorable=True)
    member_id: string  # The member id assigned by the group coordinator.
    # The unique identifier of the consumer instance provided by end user.
    group_instance_id: string | None = field("5+", default=None)
    protocol_type: string  # The unique name the for class of protocols implemented by the group we want to join.
    protocols: list[JoinGroupRequestProtocol]  # The list of protocols that the member supports.
    reason: string | None = field("8+", default=None, ignorable=True)  # The reason why the member (re-)joins the group.


@struct
class JoinGroupResponseMember:
    member_id: string  # The group member ID.
    # The unique identifier of the consumer instance provided by end user.
    group_instance_id: string | None = field("5+", default=None, ignorable=True)
    metadata: bytes  # The group member metadata.


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """Version 2 adds throttle time.
    Starting in version 3, on quota violation, brokers send out responses before throttling.
    Starting in version 4, the client needs to issue a second request to join group with assigned id.
    Version 5 is bumped to apply group.instance.id to identify member across restarts.
    Version 6 is the first flexible version.
    Starting from version 7, the broker sends back the Protocol Type to the client (KIP-559).
    Version 9 adds the SkipAssignment field.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("2+", default=0, ignorable=True)
    error_code: i16  # The error code, or 0 if there was no error.
    generation_id: i32 = field(default=-1)  # The generation ID of the group.
    protocol_type: string | None = field("7+", default=None, ignorable=True)  # The group protocol name.
    protocol_name: string | None = field(nullable="7+")  # The group protocol selected by the coordinator.
    leader: string  # The leader of the group.
    skip_assignment: bool = field("9+", default=False)  # True if the leader must skip running the assignment.
    member_id: string  # The member ID assigned by the group coordinator.
    members: list[JoinGroupResponseMember]  # The group members.
