"""The conversion of a classic group to its record, and back (Kafka: ``GroupCoordinatorRecordHelpers``)."""

from collections.abc import Mapping
from typing import Final

from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.member import ClassicGroupMember
from kpybroker.machines.groups.record import GroupRecord
from kpywire.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata

_VALUE_VERSION: Final = 3


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupRecord:
    """Make the record of the group's generation. A member without an assignment gets an empty one."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            recorded_member(member, group.protocol_name, assignments.get(member.member_id, b""))
            for member in group.members.values()
        ],
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value, _VALUE_VERSION)


def new_group_record(group: ClassicGroup) -> GroupRecord:
    """Make the record of a group that was just created and has no members yet."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=group.state_timestamp_ms,
        members=[],
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value, _VALUE_VERSION)


def recorded_member(member: ClassicGroupMember, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
    """A member as the record contains it."""
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )


def restore(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Fill a new group from its last record. The caller starts the sessions."""
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    if value.leader in group.members:
        group.leader_id = value.leader
    group.state_timestamp_ms = value.current_state_timestamp
    group.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
