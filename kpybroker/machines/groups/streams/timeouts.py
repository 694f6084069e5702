"""The timeouts of streams groups: members that are silent or do not give up tasks, and the delay of the first target.

(Kafka: ``scheduleStreamsGroupSessionTimeout``, ``scheduleStreamsGroupRebalanceTimeout``, ``StreamsGroup``.)
"""

from typing import Final

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import NEVER_MS
from kpybroker.machines.groups.epochs.member import REBALANCE, SESSION
from kpybroker.machines.groups.epochs.target import may_assign
from kpybroker.machines.groups.epochs.timeouts import cancel, ended, has_limit, set_timer
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.stories import LATE_REVOKE, SILENT
from kpybroker.machines.groups.streams.member import UNREVOKED, StreamsMember
from kpybroker.machines.groups.streams.records import epoch_record, member_tombstones, target_epoch_record
from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpybroker.machines.groups.streams.target import assign

DELAY: Final = "initial rebalance"
_NO_MEMBER = ""


def renew_session(shard: GroupShard, group_id: str, member_id: str, decision: GroupDecision) -> None:
    """Begin the session of a member again."""
    timeout_ms = decision.settings_of(group_id).streams_session_timeout_ms
    set_timer(shard, (SESSION, group_id, member_id), _end_session, timeout_ms, decision)


def limit_rebalance(shard: GroupShard, group_id: str, member: StreamsMember, decision: GroupDecision) -> None:
    """Give a member its rebalance timeout to give up tasks. Without any, nothing limits it."""
    cancel(shard, REBALANCE, group_id, member.member_id, decision)
    if member.state == UNREVOKED:
        key = (REBALANCE, group_id, member.member_id)
        set_timer(shard, key, _end_rebalance, member.rebalance_timeout_ms, decision, member.member_epoch)


def delay_target(shard: GroupShard, group_id: str, decision: GroupDecision) -> None:
    """Let the first target wait until others have joined, if the group's settings say so and it does not wait yet."""
    delay_ms = decision.settings_of(group_id).streams_initial_rebalance_delay_ms
    if delay_ms > 0 and not is_delayed(shard, group_id):
        set_timer(shard, (DELAY, group_id, _NO_MEMBER), _end_delay, delay_ms, decision)


def is_delayed(shard: GroupShard, group_id: str) -> bool:
    """Whether the first target waits."""
    return has_limit(shard, DELAY, group_id, _NO_MEMBER)


def forget_delay(shard: GroupShard, group_id: str) -> None:
    """End the delay of a group that is deleted."""
    timer = shard.member_timers.pop((DELAY, group_id, _NO_MEMBER), None)
    if timer is not None:
        shard.timers.cancel(timer)


def begin_timeouts(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
    """Begin the timeouts of a group that was just loaded."""
    group = shard.find(group_id, StreamsGroup)
    if group is not None:
        for member_id in group.ordered_members():
            renew_session(shard, group_id, member_id, decision)
            limit_rebalance(shard, group_id, group.members[member_id], decision)
    return True


def fence(shard: GroupShard, group: StreamsGroup, member_id: str, decision: GroupDecision) -> None:
    """Remove a member for good. The group goes on at the next epoch."""
    decision.records += member_tombstones(group.group_id, member_id)
    decision.records.append(
        epoch_record(
            group.group_id,
            group.epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
            group.descriptions,
        )
    )
    if len(group.members) == 1:
        decision.records.append(target_epoch_record(group.group_id, group.epoch + 1, NEVER_MS))
    for purpose in (SESSION, REBALANCE):
        cancel(shard, purpose, group.group_id, member_id, decision)


def _end_session(shard: GroupShard, key: tuple[str, str, str], decision: GroupDecision) -> None:
    """Remove a member that was silent."""
    if (found := ended(shard, key, StreamsGroup)) is not None:
        group, member = found
        decision.tell(group.group_id, SILENT, member)
        fence(shard, group, member.member_id, decision)


def _end_rebalance(shard: GroupShard, key: tuple[str, str, str], member_epoch: int, decision: GroupDecision) -> None:
    """Remove a member that has not given up its tasks: it is still at the same epoch."""
    found = ended(shard, key, StreamsGroup)
    if found is not None and found[1].member_epoch == member_epoch:
        group, member = found
        decision.tell(group.group_id, LATE_REVOKE, member)
        fence(shard, group, member.member_id, decision)


def _end_delay(shard: GroupShard, key: tuple[str, str, str], decision: GroupDecision) -> None:
    """Compute the first target. Without a configured topology, the next heartbeat does it."""
    shard.member_timers.pop(key, None)
    group = shard.find(key[1], StreamsGroup)
    if group is None or not group.members or group.configured is None:
        return
    interval_ms = decision.settings_of(group.group_id).streams_assignment_interval_ms
    if may_assign(group, group.epoch, interval_ms, decision):
        assign(group, group.epoch, None, group.configured, group.assignment_configs, decision.records, decision)
