"""The records of streams groups (Kafka: ``StreamsCoordinatorRecordHelpers``)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpybroker.machines.groups.described_topology import DescribedTopologyValue
from kpybroker.machines.groups.epochs.java_order import string_key
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.streams.member import StreamsMember
from kpybroker.machines.groups.streams.tasks import ActiveTasks, TargetTasks, Tasks
from kpywire.group_records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from kpywire.group_records.streams_group_current_member_assignment import TaskIds as CurrentTasks
from kpywire.group_records.streams_group_member_metadata import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kpywire.group_records.streams_group_metadata import (
    LastAssignmentConfig,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kpywire.group_records.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from kpywire.group_records.streams_group_target_assignment_member import TaskIds as GivenTasks
from kpywire.group_records.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kpywire.group_records.streams_group_topology import StreamsGroupTopologyKey


class Descriptions(NamedTuple):
    """The epochs of the topologies whose descriptions a plug-in of Kafka stored, and refused (KIP-1331); -1 for none.
    They stay as they are: descriptions are kept elsewhere here (`kpybroker.machines.groups.streams.descriptions`)."""

    stored_epoch: int = -1
    failed_epoch: int = -1


def epoch_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    configs: Mapping[str, str],
    descriptions: Descriptions,
) -> GroupRecord:
    """Record 17: the epoch of a group, and what it was made with."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=each, value=configs[each]) for each in sorted(configs)],
        stored_description_topology_epoch=descriptions.stored_epoch,
        failed_description_topology_epoch=descriptions.failed_epoch,
    )
    return GroupRecord(StreamsGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: StreamsMember) -> GroupRecord:
    """Record 19: who a member is."""
    endpoint = member.user_endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[
            KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags, key=string_key)
        ],
    )
    return GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """Record 20: the epoch and the time of a target."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: TargetTasks) -> GroupRecord:
    """Record 21: the target of a member."""
    active, standby, warmup = (
        [GivenTasks(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks, key=string_key)]
        for tasks in target
    )
    value = StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
    return GroupRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: StreamsMember) -> GroupRecord:
    """Record 22: what a member has, and what it has to give up."""
    assigned, pending = member.assigned, member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_without_epochs(assigned.standby),
        warmup_tasks=_without_epochs(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(pending.active),
        standby_tasks_pending_revocation=_without_epochs(pending.standby),
        warmup_tasks_pending_revocation=_without_epochs(pending.warmup),
    )
    return GroupRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def topology_record(group_id: str, value: DescribedTopologyValue) -> GroupRecord:
    """Record 23: the topology of a group."""
    return GroupRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The end of a member."""
    return [
        GroupRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        GroupRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[GroupRecord]:
    """The end of a group with all its members."""
    ends = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in ends),
        *(target for _, target, _ in ends),
        GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(member for _, _, member in ends),
        GroupRecord(StreamsGroupMetadataKey(group_id=group_id)),
        GroupRecord(StreamsGroupTopologyKey(group_id=group_id)),
    ]


def _with_epochs(tasks: ActiveTasks) -> list[CurrentTasks]:
    return [
        CurrentTasks(
            subtopology_id=each,
            partitions=sorted(tasks[each]),
            assignment_epochs=[tasks[each][partition] for partition in sorted(tasks[each])],
        )
        for each in sorted(tasks, key=string_key)
    ]


def _without_epochs(tasks: Tasks) -> list[CurrentTasks]:
    return [CurrentTasks(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks, key=string_key)]
