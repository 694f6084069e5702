"""The timeouts of members of consumer groups: when one ends, the member is removed.

(Kafka: ``scheduleConsumerGroupSessionTimeout``, ``scheduleConsumerGroupRebalanceTimeout``.)
"""

from typing import Final

from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.leave import fence_members
from kpybroker.machines.groups.consumer.member import UNREVOKED, ConsumerMember
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.member import REBALANCE, SESSION
from kpybroker.machines.groups.epochs.timeouts import cancel, ended, set_timer
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.stories import LATE_JOIN, LATE_REVOKE, LATE_SYNC, SILENT

JOIN: Final = "join"
SYNC: Final = "sync"
_PURPOSES = (SESSION, REBALANCE, JOIN, SYNC)
_LATE: Final = {SESSION: SILENT, JOIN: LATE_JOIN, SYNC: LATE_SYNC}


def renew_session(shard: GroupShard, group_id: str, member_id: str, decision: GroupDecision, timeout_ms: int) -> None:
    """Begin the session of a member again."""
    set_timer(shard, (SESSION, group_id, member_id), _end_member, timeout_ms, decision)


def limit_rebalance(shard: GroupShard, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
    """Give a member its rebalance timeout to give up partitions. Without any, nothing limits it."""
    key = (REBALANCE, group_id, member.member_id)
    cancel(shard, *key, decision)
    if member.state == UNREVOKED:
        set_timer(shard, key, _end_rebalance, member.rebalance_timeout_ms, decision, member.member_epoch)


def limit_classic(
    shard: GroupShard, purpose: str, group_id: str, member_id: str, decision: GroupDecision, ms: int
) -> None:
    """Give a classic member this time to join or to sync."""
    set_timer(shard, (purpose, group_id, member_id), _end_member, ms, decision)


def cancel_all(shard: GroupShard, group_id: str, member_id: str, decision: GroupDecision) -> None:
    """End all timers of a member."""
    for purpose in _PURPOSES:
        cancel(shard, purpose, group_id, member_id, decision)


def begin_timeouts(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
    """Begin the timeouts of a group that was just loaded."""
    group = shard.find(group_id, ConsumerGroup)
    if group is not None:
        timeout_ms = decision.settings_of(group_id).consumer_session_timeout_ms
        for member in map(group.members.__getitem__, group.ordered_members()):
            renew_session(shard, group_id, member.member_id, decision, timeout_ms)
            if member.state == UNREVOKED:
                limit_rebalance(shard, group_id, member, decision)
    return True


def _end_member(shard: GroupShard, key: tuple[str, str, str], decision: GroupDecision) -> None:
    """Remove a member whose time is up."""
    if (found := ended(shard, key, ConsumerGroup)) is not None:
        group, member = found
        decision.tell(group.group_id, _LATE[key[0]], member)
        fence(shard, group, [member], decision)


def _end_rebalance(shard: GroupShard, key: tuple[str, str, str], member_epoch: int, decision: GroupDecision) -> None:
    """Remove a member that has not given up its partitions: it is still at the same epoch."""
    found = ended(shard, key, ConsumerGroup)
    if found is not None and found[1].member_epoch == member_epoch:
        group, member = found
        decision.tell(group.group_id, LATE_REVOKE, member)
        fence(shard, group, [member], decision)


def fence(shard: GroupShard, group: ConsumerGroup, members: list[ConsumerMember], decision: GroupDecision) -> None:
    """Remove members, with their timers. If only classic members are left, the group becomes a classic one; then the
    timers run on, as in Kafka."""
    leaving = [member.member_id for member in members]
    if shard.downgrade(shard, group, leaving, decision):
        return
    fence_members(group, members, decision)
    for member_id in leaving:
        cancel_all(shard, group.group_id, member_id, decision)
