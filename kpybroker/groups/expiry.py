"""What nobody reads any more is forgotten: offsets, then empty groups (KIP-211).

(Kafka: ``GroupCoordinatorShard.cleanupGroupMetadata``, ``ClassicGroup.offsetExpirationCondition``.)
"""

from collections.abc import Callable, Iterator

from kpybroker.groups.classic_group import State
from kpybroker.groups.committed import NO_TIMESTAMP, Committed, unpack
from kpybroker.groups.decision import Decision
from kpybroker.groups.deletion import append_group_tombstones, append_tombstones
from kpybroker.groups.group import Group
from kpybroker.groups.lookup import is_abandoned, wake
from kpybroker.groups.shard import Shard, Sweep


def expire_offsets(shard: Shard) -> None:
    """Begin to look at every group."""
    shard.sweeps.append(Sweep(shard.groups, _visit))


def _visit(shard: Shard, group: Group, decision: Decision) -> bool:
    since = _expires_since(shard, group, decision)
    if since is None:
        return True
    if not append_tombstones(group, _expired(group, since, decision), decision):
        return False
    left = sum(map(len, group.offsets.values())) - len(decision.records)
    if left or group.pending:
        return True
    if decision.records:
        return False  # the group's turn comes when its offsets are gone
    classic = group.classic
    if classic is None or (classic.state is State.EMPTY and not classic.pending_members):
        append_group_tombstones(group, decision)
    return True


def _expires_since(shard: Shard, group: Group, decision: Decision) -> Callable[[Committed], int] | None:
    """From when on the retention of a position counts; None if it does not expire now."""
    if group.foreign is not None:
        return _commit_time if is_abandoned(shard, group, decision) and group.foreign.keeps_offsets else None
    if group.classic is None and (group.recorded is None or not group.recorded.members):
        recorded = group.recorded
        return _empty_since(recorded.current_state_timestamp if recorded and recorded.protocol_type else NO_TIMESTAMP)
    classic = group.classic or wake(group, decision)
    if classic.protocol_type is None:
        return _commit_time
    if classic.state is State.EMPTY:
        return _empty_since(classic.state_timestamp_ms)
    if classic.state is State.STABLE and classic.subscribed_topics is not None:
        return _commit_time
    return None


def _empty_since(timestamp_ms: int) -> Callable[[Committed], int]:
    """A group that had members counts from when the last has left, if that is known."""
    return _commit_time if timestamp_ms == NO_TIMESTAMP else lambda _: timestamp_ms


def _commit_time(committed: Committed) -> int:
    return committed.commit_timestamp_ms


def _expired(group: Group, since: Callable[[Committed], int], decision: Decision) -> Iterator[tuple[str, int]]:
    now_ms, retention_ms = decision.timestamp_ms, decision.settings.offsets_retention_ms
    for topic, partitions in group.offsets.items():
        if group.classic is not None and group.classic.is_subscribed(topic):
            continue
        for partition, packed in partitions.items():
            committed = unpack(packed)
            if committed.expire_timestamp_ms != NO_TIMESTAMP:
                is_expired = now_ms >= committed.expire_timestamp_ms
            else:
                is_expired = now_ms - since(committed) >= retention_ms
            if is_expired and (topic, partition) not in group.pending:
                yield topic, partition
