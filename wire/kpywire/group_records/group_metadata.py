"""GroupMetadata: a record of type 2, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message, string, struct


@message(key=2, versions="0")
class GroupMetadataKey:
    group: string  # The group id.


@struct
class MemberMetadata:
    member_id: string  # The member id.
    group_instance_id: string | None = field("3+", default=None, ignorable=True)  # The group instance id.
    client_id: string  # The client id.
    client_host: string  # The client host.
    rebalance_timeout: i32 = field("1+", default=-1, ignorable=True)  # The rebalance timeout.
    session_timeout: i32  # The session timeout.
    subscription: bytes  # The subscription.
    assignment: bytes  # The assignment.


@message(key=2, versions="0-4", flexible="4+")
class GroupMetadataValue:
    """Version 4 is the first flexible version. KIP-915: bumping the version will no longer make this record backward
    compatible. We suggest to add/remove only tagged fields to maintain backward compatibility.
    """

    protocol_type: string  # The protocol type.
    generation: i32  # The generation id.
    protocol: string | None  # The protocol name.
    leader: string | None  # The leader id.
    current_state_timestamp: i64 = field("2+", default=-1, ignorable=True)  # The timestamp of the last state change.
    members: list[MemberMetadata]  # The group members.
