"""How the records of groups that are not served change a shard."""

from typing import Any

from kpybroker.groups.foreign.foreign_group import ForeignGroup
from kpybroker.groups.group import NOBODY, Group
from kpybroker.groups.shard import GroupShard


def keep(shard: GroupShard, key: Any, value: Any | None) -> None:
    """Apply one record of such a group, or its tombstone. With its last record the group is gone."""
    group = shard.groups.get(key.group_id)
    foreign = None if group is None else group.membership
    if not isinstance(foreign, ForeignGroup):
        if value is None:
            return
        if group is None:
            group = shard.groups[key.group_id] = Group(key.group_id)
        foreign = group.membership = ForeignGroup()
    foreign.take(key, value)
    if group is not None and foreign.is_gone:
        group.membership = group.successor or NOBODY
        group.successor = None
        if group.membership is NOBODY and group.is_unknown:
            del shard.groups[group.group_id]
