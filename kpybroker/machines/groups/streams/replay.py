"""How the records of streams groups change a group."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kpybroker.machines.groups.epochs.member import LEAVING_EPOCH
from kpybroker.machines.groups.epochs.replay import replays_of, take_target_epoch
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
    StreamsGroupTargetAssignmentMetadataKey: take_target_epoch,
    StreamsGroupTopologyKey: _take_topology,
}


def _forget(shard: GroupShard, group_id: str) -> None:
    forget_delay(shard, group_id)
    forget_asking(shard, group_id)


REPLAYS = replays_of(StreamsGroup, _TAKES, StreamsGroupMetadataKey, _forget)


def _counted(shard: GroupShard, key: Any, value: Any | None) -> None:
    """Apply a record that may change whether the group has a description."""
    before = _description_bytes(shard, key.group_id)
    _uncounted(shard, key, value)
    shard.notes(DescriptionNotes).bytes += _description_bytes(shard, key.group_id) - before


def _description_bytes(shard: GroupShard, group_id: str) -> int:
    group = shard.find(group_id, StreamsGroup)
    return 0 if group is None else group.description_bytes


_uncounted = REPLAYS[StreamsGroupTopologyKey]
REPLAYS[StreamsGroupTopologyKey] = REPLAYS[StreamsGroupMetadataKey] = _counted
