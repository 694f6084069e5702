"""How the records of groups with epochs change a shard, as far as the kinds are alike (Kafka:
``GroupMetadataManager.replay``).

Compaction may leave records in another order than they were written, and tombstones of what was never seen here.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kpybroker.machines.groups.epochs.epoch_members import EpochMembers
from kpybroker.machines.groups.epochs.member import LEAVING_EPOCH
from kpybroker.machines.groups.group import NO_MEMBERS, Group
from kpybroker.machines.groups.shard import GroupShard

_Members = TypeVar("_Members", bound=EpochMembers)


def replays_of(
    make: Callable[[str], _Members],
    takes: Mapping[type, Callable[[_Members, Any, Any], None]],
    epoch_key: type,
    forget: Callable[[GroupShard, str], None] | None = None,
) -> dict[type, Callable[[GroupShard, Any, Any], None]]:
    """The replays of all records of a kind: ``takes`` change a group by a key and a value. The tombstone of
    ``epoch_key`` is the end of a group, whose notes ``forget`` drops."""

    def take(shard: GroupShard, key: Any, value: Any | None) -> None:
        shard.rouse(key.group_id)
        group = shard.groups.get(key.group_id)
        members: Any = None if group is None else group.membership
        if group is None or type(members) is not make:
            if value is None:
                return
            if group is None:
                group = shard.groups[key.group_id] = Group(key.group_id)
            members = group.membership = make(key.group_id)
        kind: type = type(key)
        if value is None and kind is epoch_key:
            if forget is not None:
                forget(shard, key.group_id)
            _end(shard, group)
        else:
            takes[kind](members, key, value)

    return dict.fromkeys(takes, take)


def _end(shard: GroupShard, group: Group) -> None:
    group.membership = group.successor or NO_MEMBERS
    group.successor = None
    if group.membership is NO_MEMBERS and group.is_unknown:
        del shard.groups[group.group_id]


def take_epoch(group: Any, _key: Any, value: Any) -> None:
    """Apply the epoch of a group."""
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def take_target(group: Any, key: Any, value: Any | None) -> None:
    """Apply the target of a member, by partitions."""
    target = None
    if value is not None:
        target = {each.topic_id: tuple(each.partitions) for each in value.topic_partitions}
    group.set_target(key.member_id, target)


def take_target_epoch(group: Any, _key: Any, value: Any | None) -> None:
    """Apply the epoch and the time of a target."""
    group.assignment_epoch = LEAVING_EPOCH if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
