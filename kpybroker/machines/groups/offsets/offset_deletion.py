"""OffsetDelete (KIP-496), and the committed offsets of deleted topics."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kpybroker.machines.coordination.events import MetadataChanged
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.committed import commit_tombstone, find_committed, unpack
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_TOMBSTONES_AT_ONCE = 500
_BYTES_AT_ONCE = 256 * 1024
_BYTES_PER_TOMBSTONE = 512
"""A generous estimate of a tombstone's size with its topic's name, without the group's."""


def delete_offsets(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer an OffsetDelete: delete committed offsets in topics that no member reads."""
    message = request.message
    error = error_codes.NONE
    group = shard.groups.get(message.group_id)
    if not message.group_id:
        error = error_codes.INVALID_GROUP_ID
    elif group is None:
        error = error_codes.GROUP_ID_NOT_FOUND
    else:
        error = group.membership.check_offset_deletion(group, decision)
    if group is None or error:
        refuse_offset_deletion(request, error, decision)
        return
    topics = []
    for topic in message.topics:
        is_read = group.membership.is_subscribed(topic.name)
        partition_error = error_codes.GROUP_SUBSCRIBED_TO_TOPIC if is_read else error_codes.NONE
        partitions = [each.partition_index for each in topic.partitions]
        if not is_read:
            decision.records += [
                commit_tombstone(group.group_id, topic.name, partition)
                for partition in partitions
                if find_committed(group.offsets, topic.name, partition) is not None
                or (topic.name, partition) in group.pending
            ]
        topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=partition, error_code=partition_error)
                    for partition in partitions
                ],
            )
        )
    decision.reply(request.ticket, OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=topics))


def refuse_offset_deletion(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer an OffsetDelete as a whole with an error."""
    decision.reply(request.ticket, OffsetDeleteResponse(error_code=error_code, throttle_time_ms=0, topics=[]))


class _Forgetting:
    """Drops a group's committed offsets in deleted topics, as far as they were committed before the deletion."""

    def __init__(self) -> None:
        self._doomed: dict[str, dict[int, int]] = {}
        """By topic and partition: offsets whose record lies below this offset of the shard are dropped."""

    def add(self, partitions: Mapping[str, Sequence[int]], before_offset: int) -> None:
        for topic, indexes in partitions.items():
            self._doomed.setdefault(topic, {}).update(dict.fromkeys(indexes, before_offset))

    def __call__(self, shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
        group = shard.groups.get(group_id)
        if group is None:
            return True
        found = (
            (topic, partition)
            for topic, doomed in self._doomed.items()
            if topic in group.offsets or group.pending
            for partition, before_offset in doomed.items()
            if _is_older(group, topic, partition, before_offset)
        )
        return append_tombstones(group, found, decision)


def forget_partitions(shard: GroupShard, event: MetadataChanged, _decision: GroupDecision) -> None:
    """Begin to drop the committed offsets of the partitions that were deleted. Later commits are not affected.

    Topics may be created and deleted quickly. So sweeps that have not begun are merged, and a topic that no group has
    read costs nothing.
    """
    read = {topic: indexes for topic, indexes in event.deleted.items() if topic in shard.topics}
    if not read:
        return
    waiting = shard.sweeps.waiting
    last = waiting[-1] if len(waiting) > 1 else None  # the first may have begun
    forgetting = None if last is None else last.visit
    if last is None or not isinstance(forgetting, _Forgetting):
        forgetting = _Forgetting()
        last = shard.sweeps.begin((), forgetting)
    forgetting.add(read, shard.next_offset)
    last.keys = deque(shard.groups)


def append_tombstones(group: Group, found: Iterator[tuple[str, int]], decision: GroupDecision) -> bool:
    """Append tombstones of these offsets, as many as fit into a batch; whether that were all."""
    room = min(_TOMBSTONES_AT_ONCE, 1 + _BYTES_AT_ONCE // (3 * len(group.group_id) + _BYTES_PER_TOMBSTONE))
    doomed = list(islice(found, room))
    decision.records += [commit_tombstone(group.group_id, *each) for each in doomed]
    return len(doomed) < room


def positions(group: Group) -> Iterator[tuple[str, int]]:
    """The (topic, partition) pairs for which offsets are committed or pending."""
    for topic, partitions in group.offsets.items():
        for partition in partitions:
            yield topic, partition
    for topic, partition in group.pending:
        if find_committed(group.offsets, topic, partition) is None:
            yield topic, partition


def _is_older(group: Group, topic: str, partition: int, before_offset: int) -> bool:
    committed = find_committed(group.offsets, topic, partition)
    if committed is not None:
        return committed.record_offset < before_offset
    pending = group.pending.get((topic, partition), {})
    return any(unpack(each).record_offset < before_offset for each in pending.values())
