"""The sessions of the members of share groups (Kafka: ``scheduleShareGroupSessionTimeout``)."""

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.member import SESSION
from kpybroker.machines.groups.epochs.timeouts import ended, set_timer
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.leave import fence
from kpybroker.machines.groups.share.share_group import ShareGroup
from kpybroker.machines.groups.stories import SILENT


def renew_session(shard: GroupShard, group_id: str, member_id: str, decision: GroupDecision) -> None:
    """Begin the session of a member again."""
    timeout_ms = decision.settings_of(group_id).share_session_timeout_ms
    set_timer(shard, (SESSION, group_id, member_id), _end, timeout_ms, decision)


def begin_sessions(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
    """Begin the sessions of a group that was just loaded."""
    group = shard.find(group_id, ShareGroup)
    for member_id in () if group is None else group.ordered_members():
        renew_session(shard, group_id, member_id, decision)
    return True


def _end(shard: GroupShard, key: tuple[str, str, str], decision: GroupDecision) -> None:
    if (found := ended(shard, key, ShareGroup)) is not None:
        group, member = found
        decision.tell(group.group_id, SILENT, member)
        fence(group, member, decision)
