"""The sessions of the members of share groups (Kafka: ``scheduleShareGroupSessionTimeout``)."""

from typing import Final

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.leave import fence
from kpybroker.machines.groups.share.share_group import ShareGroup
from kpybroker.machines.groups.stories import SILENT
from kpybroker.machines.groups.timers import GroupTimer

SESSION: Final = "share session"

_Key = tuple[str, str, str]


def renew_session(shard: GroupShard, group_id: str, member_id: str, decision: GroupDecision) -> None:
    """Begin the session of a member again."""
    key = (SESSION, group_id, member_id)
    timer = shard.member_timers.get(key)
    if timer is None:
        timer = shard.member_timers[key] = GroupTimer(_end, shard, key)
    decision.set_timer(timer, decision.settings_of(group_id).share_session_timeout_ms)


def end_session(shard: GroupShard, group_id: str, member_id: str, decision: GroupDecision) -> None:
    """End the session of a member that has left."""
    timer = shard.member_timers.pop((SESSION, group_id, member_id), None)
    if timer is not None:
        decision.timers.cancel(timer)


def begin_sessions(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
    """Begin the sessions of a group that was just loaded."""
    group = shard.groups.get(group_id)
    if group is not None and isinstance(group.membership, ShareGroup):
        for member_id in group.membership.ordered_members():
            renew_session(shard, group_id, member_id, decision)
    return True


def _end(shard: GroupShard, key: _Key, decision: GroupDecision) -> None:
    shard.member_timers.pop(key, None)
    _, group_id, member_id = key
    group = shard.groups.get(group_id)
    if group is not None and isinstance(group.membership, ShareGroup) and member_id in group.membership.members:
        member = group.membership.members[member_id]
        decision.tell(group_id, SILENT, member)
        fence(group.membership, member, decision)
