"""The target of a member: the partitions that an assignor gave to it."""

from typing import NamedTuple

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import EpochMembers
from kpybroker.machines.groups.epochs.member import Target


class MemberTarget(NamedTuple):
    """The target of one member, and the epoch at which it was computed."""

    epoch: int
    target: Target
    is_old: bool = False
    """Whether the group is at no later epoch, and has been at this one for a while."""


def may_assign(group: EpochMembers, epoch: int, interval_ms: int, decision: GroupDecision) -> bool:
    """Whether a target is to be computed: the group is at a new epoch, and the last computation is long enough ago
    (KIP-1263)."""
    if group.assignment_epoch >= epoch:
        return False
    since_ms = group.assignment_timestamp_ms
    return since_ms == 0 or decision.ms_since(since_ms) >= interval_ms


def is_same(one: Target, other: Target | None) -> bool:
    """Whether two targets have the same partitions, in whatever order."""
    if other is None or len(one) != len(other):
        return False
    return all(topic_id in other and set(indexes) == set(other[topic_id]) for topic_id, indexes in one.items())
