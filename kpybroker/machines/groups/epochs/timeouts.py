"""The timers of members: each is known by its purpose, its group and its member, so it stays when the group becomes a
new object."""

from collections.abc import Callable
from typing import Any, TypeVar

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import EpochMembers
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.timers import GroupTimer

_Kind = TypeVar("_Kind", bound=EpochMembers)


def ended(shard: GroupShard, key: tuple[str, str, str], of_kind: type[_Kind]) -> tuple[_Kind, Any] | None:
    """The group and the member whose timer has fired; None if the member is gone."""
    shard.member_timers.pop(key, None)
    _, group_id, member_id = key
    group = shard.find(group_id, of_kind)
    return None if group is None or member_id not in group.members else (group, group.members[member_id])


def has_limit(shard: GroupShard, purpose: str, group_id: str, member_id: str) -> bool:
    """Whether a timer of this purpose runs."""
    timer = shard.member_timers.get((purpose, group_id, member_id))
    return timer is not None and timer.deadline_ms is not None


def set_timer(
    shard: GroupShard,
    key: tuple[str, str, str],
    fire: Callable[..., None],
    delay_ms: int,
    decision: GroupDecision,
    *context: Any,
) -> None:
    """Set a timer of a group to fire after this time: ``fire(shard, key, *context, decision)``."""
    timer = shard.member_timers.get(key)
    if timer is None:
        timer = shard.member_timers[key] = GroupTimer(fire, shard, key, *context)
    decision.set_timer(timer, delay_ms)


def cancel(shard: GroupShard, purpose: str, group_id: str, member_id: str, decision: GroupDecision) -> None:
    """End one timer of a member."""
    timer = shard.member_timers.pop((purpose, group_id, member_id), None)
    if timer is not None:
        decision.timers.cancel(timer)
