"""The expiry of committed offsets, and then of empty groups (KIP-211).

(Kafka: ``GroupCoordinatorShard.cleanupGroupMetadata``, ``OffsetMetadataManager.cleanupExpiredOffsets``.)
"""

from collections.abc import Iterator

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import ExpireOffsets
from kpybroker.machines.groups.group import SINCE_COMMIT, Group
from kpybroker.machines.groups.offsets.committed import NO_TIMESTAMP, unpack
from kpybroker.machines.groups.offsets.offset_deletion import append_tombstones
from kpybroker.machines.groups.shard import GroupShard


def expire_offsets(shard: GroupShard, _event: ExpireOffsets, _decision: GroupDecision) -> None:
    """Begin a sweep over every group."""
    shard.sweeps.begin(shard.groups, _visit)


def _visit(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
    group = shard.groups.get(group_id)
    since_ms = None if group is None else group.membership.offsets_expire_since(group, decision)
    if group is None or since_ms is None:
        return True
    if not append_tombstones(group, _expired(group, since_ms, decision), decision):
        return False
    left = sum(map(len, group.offsets.values())) - len(decision.records)
    if left or group.pending:
        return True
    if decision.records:
        return False  # the group's turn comes when its offsets are gone
    if group.membership.may_expire:
        decision.records += group.membership.tombstones(group_id)
    return True


def _expired(group: Group, since_ms: int, decision: GroupDecision) -> Iterator[tuple[str, int]]:
    """The (topic, partition) pairs of expired offsets. Retention of a group without members begins when the last one
    left, if that is known."""
    now_ms, retention_ms = decision.timestamp_ms, decision.settings.offsets_retention_ms
    for topic, partitions in group.offsets.items():
        if group.membership.is_subscribed(topic):
            continue
        for partition, packed in partitions.items():
            committed = unpack(packed)
            if committed.expire_timestamp_ms != NO_TIMESTAMP:
                is_expired = now_ms >= committed.expire_timestamp_ms
            else:
                begins_ms = committed.commit_timestamp_ms if since_ms == SINCE_COMMIT else since_ms
                is_expired = now_ms - begins_ms >= retention_ms
            if is_expired and (topic, partition) not in group.pending:
                yield topic, partition
