"""How the records of streams groups change a shard (Kafka: ``GroupMetadataManager.replay``).

Compaction may leave records in another order than they were written, and tombstones of what was never seen here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kpybroker.machines.groups.epochs.member import LEAVING_EPOCH
from kpybroker.machines.groups.group import NO_MEMBERS, Group
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.streams.asking import DescriptionNotes
from kpybroker.machines.groups.streams.descriptions import forget_asking
from kpybroker.machines.groups.streams.member import StreamsMember, UserEndpoint
from kpybroker.machines.groups.streams.records import Descriptions
from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpybroker.machines.groups.streams.tasks import ActiveTasks, MemberTasks, TargetTasks, tasks_of
from kpybroker.machines.groups.streams.timeouts import forget_delay
from kpybroker.machines.groups.streams.topology import topology_of
from kpywire.group_records.streams_group_current_member_assignment import StreamsGroupCurrentMemberAssignmentKey
from kpywire.group_records.streams_group_member_metadata import StreamsGroupMemberMetadataKey
from kpywire.group_records.streams_group_metadata import StreamsGroupMetadataKey
from kpywire.group_records.streams_group_target_assignment_member import StreamsGroupTargetAssignmentMemberKey
from kpywire.group_records.streams_group_target_assignment_metadata import StreamsGroupTargetAssignmentMetadataKey
from kpywire.group_records.streams_group_topology import StreamsGroupTopologyKey


def _take_member(group: StreamsGroup, key: Any, value: Any | None) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    endpoint = value.user_endpoint
    member = group.members.get(key.member_id) or StreamsMember(key.member_id)
    group.put(
        member._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
            client_tags={each.key: each.value for each in value.client_tags},
        )
    )


def _take_target(group: StreamsGroup, key: Any, value: Any | None) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        listed = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
        group.target[key.member_id] = TargetTasks(*map(tasks_of, listed))


def _take_target_epoch(group: StreamsGroup, _key: Any, value: Any | None) -> None:
    group.assignment_epoch = LEAVING_EPOCH if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


def _take_current(group: StreamsGroup, key: Any, value: Any | None) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(
                member._replace(
                    member_epoch=LEAVING_EPOCH,
                    previous_member_epoch=LEAVING_EPOCH,
                    assigned=MemberTasks(),
                    pending_revocation=MemberTasks(),
                )
            )
        return
    group.put(
        (member or StreamsMember(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=MemberTasks(
                _with_epochs(value.active_tasks, value.member_epoch),
                tasks_of(value.standby_tasks),
                tasks_of(value.warmup_tasks),
            ),
            pending_revocation=MemberTasks(
                _with_epochs(value.active_tasks_pending_revocation, value.member_epoch),
                tasks_of(value.standby_tasks_pending_revocation),
                tasks_of(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _with_epochs(listed: Iterable[Any], epoch: int) -> ActiveTasks:
    """The active tasks of a record. Kafka before 4.3 did not write their epochs, which are that of the member then."""
    found = {}
    for each in listed:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [epoch] * len(each.partitions)
        found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found


def _take_topology(group: StreamsGroup, _key: Any, value: Any | None) -> None:
    group.topology = None if value is None else topology_of(value)


def _take_epoch(group: StreamsGroup, _key: Any, value: Any) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.descriptions = Descriptions(value.stored_description_topology_epoch, value.failed_description_topology_epoch)


_TAKES: Mapping[type, Callable[[StreamsGroup, Any, Any], None]] = {
    StreamsGroupCurrentMemberAssignmentKey: _take_current,
    StreamsGroupMemberMetadataKey: _take_member,
    StreamsGroupMetadataKey: _take_epoch,
    StreamsGroupTargetAssignmentMemberKey: _take_target,
    StreamsGroupTargetAssignmentMetadataKey: _take_target_epoch,
    StreamsGroupTopologyKey: _take_topology,
}

KEYS = tuple(_TAKES)
"""The types of the keys of all records of streams groups."""


def take_streams_group(shard: GroupShard, key: Any, value: Any | None) -> None:
    """Apply one record of a streams group, or its tombstone. The tombstone of its epoch is the end of the group."""
    group = shard.groups.get(key.group_id)
    streams = None if group is None else group.membership
    if not isinstance(streams, StreamsGroup):
        if value is None:
            return
        if group is None:
            group = shard.groups[key.group_id] = Group(key.group_id)
        streams = group.membership = StreamsGroup(key.group_id)
    if value is None and type(key) is StreamsGroupMetadataKey:
        forget_delay(shard, key.group_id)
        forget_asking(shard, key.group_id)
        shard.notes(DescriptionNotes).bytes -= streams.description_bytes
        if group is not None:
            _end(shard, group)
        return
    before = streams.description_bytes
    _TAKES[type(key)](streams, key, value)
    shard.notes(DescriptionNotes).bytes += streams.description_bytes - before


def _end(shard: GroupShard, group: Group) -> None:
    group.membership = group.successor or NO_MEMBERS
    group.successor = None
    if group.membership is NO_MEMBERS and group.is_unknown:
        del shard.groups[group.group_id]
