"""DeleteGroups, OffsetDelete, and the offsets of topics that are gone (KIP-229, KIP-496)."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kpybroker.groups.classic_group import State
from kpybroker.groups.committed import commit_tombstone, unpack
from kpybroker.groups.decision import Decision
from kpybroker.groups.events import DeleteGroup, GroupRequest
from kpybroker.groups.group import Group
from kpybroker.groups.lookup import is_abandoned, wake
from kpybroker.groups.record import Record
from kpybroker.groups.shard import Shard, Sweep
from kpybroker.groups.snapshot import group_tombstone
from kpywire import error_codes
from kpywire.messages.delete_groups import DeletableGroupResult
from kpywire.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_TOMBSTONES_AT_ONCE = 500
_BYTES_AT_ONCE = 256 * 1024
_BYTES_PER_TOMBSTONE = 512
"""A generous guess of a tombstone with its topic's name, without the group's."""


def delete_group(shard: Shard, request: GroupRequest, decision: Decision) -> None:
    """Answer a `DeleteGroup`: an empty group goes with all its offsets, in one batch."""
    message: DeleteGroup = request.message
    error = error_codes.GROUP_ID_NOT_FOUND
    group = shard.groups.get(message.group_id)
    if group is not None:
        error = _check_empty(shard, group, decision)
        if not error:
            decision.records += [commit_tombstone(group.group_id, *each) for each in positions(group)]
            decision.records += _group_tombstones(group)
    refuse_deletion(request, error, decision)


def refuse_deletion(request: GroupRequest, error_code: int, decision: Decision) -> None:
    """The result of a deletion, whatever it is."""
    result = DeletableGroupResult(group_id=request.message.group_id, error_code=error_code)
    decision.reply(request.ticket, result)


def delete_offsets(shard: Shard, request: GroupRequest, decision: Decision) -> None:
    """Answer an OffsetDelete: positions in topics that no member reads."""
    message = request.message
    error = error_codes.NONE
    group = shard.groups.get(message.group_id)
    if not message.group_id:
        error = error_codes.INVALID_GROUP_ID
    elif group is None:
        error = error_codes.GROUP_ID_NOT_FOUND
    elif not is_abandoned(shard, group, decision) and _check_empty(shard, group, decision):
        is_consumer = group.classic is not None and group.classic.uses_consumer_protocol
        error = error_codes.NONE if is_consumer else error_codes.NON_EMPTY_GROUP
    if group is None or error:
        refuse_offset_deletion(request, error, decision)
        return
    topics = []
    for topic in message.topics:
        is_read = group.classic is not None and group.classic.is_subscribed(topic.name)
        partition_error = error_codes.GROUP_SUBSCRIBED_TO_TOPIC if is_read else error_codes.NONE
        partitions = [each.partition_index for each in topic.partitions]
        if not is_read:
            decision.records += [
                commit_tombstone(group.group_id, topic.name, partition)
                for partition in partitions
                if group.committed(topic.name, partition) is not None or (topic.name, partition) in group.pending
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


def refuse_offset_deletion(request: GroupRequest, error_code: int, decision: Decision) -> None:
    """An OffsetDelete fails as a whole."""
    decision.reply(request.ticket, OffsetDeleteResponse(error_code=error_code, throttle_time_ms=0, topics=[]))


class _Forgetting:
    """Drops the positions of deleted topics in a group: those that were committed before."""

    def __init__(self) -> None:
        self._doomed: dict[str, dict[int, int]] = {}
        """By topic and partition: what is committed before this offset of the shard goes."""

    def add(self, partitions: Mapping[str, Sequence[int]], before_offset: int) -> None:
        for topic, indexes in partitions.items():
            self._doomed.setdefault(topic, {}).update(dict.fromkeys(indexes, before_offset))

    def __call__(self, _: Shard, group: Group, decision: Decision) -> bool:
        found = (
            (topic, partition)
            for topic, doomed in self._doomed.items()
            if topic in group.offsets or group.pending
            for partition, before_offset in doomed.items()
            if _is_older(group, topic, partition, before_offset)
        )
        return append_tombstones(group, found, decision)


def forget_partitions(shard: Shard, partitions: Mapping[str, Sequence[int]]) -> None:
    """Begin to drop the positions in these partitions, by topic. What is committed from now on is not meant.

    Topics may come and go quickly: what is not begun is done together, and a topic that nobody has read costs nothing.
    """
    read = {topic: indexes for topic, indexes in partitions.items() if topic in shard.topics}
    if not read:
        return
    last = shard.sweeps[-1] if len(shard.sweeps) > 1 else None  # the first may have begun
    forgetting = None if last is None else last.visit
    if last is None or not isinstance(forgetting, _Forgetting):
        forgetting = _Forgetting()
        last = Sweep((), forgetting)
        shard.sweeps.append(last)
    forgetting.add(read, shard.next_offset)
    last.group_ids = deque(shard.groups)


def append_tombstones(group: Group, found: Iterator[tuple[str, int]], decision: Decision) -> bool:
    """Forget these positions, no more at once than fit into a batch. Whether that were all."""
    room = min(_TOMBSTONES_AT_ONCE, 1 + _BYTES_AT_ONCE // (3 * len(group.group_id) + _BYTES_PER_TOMBSTONE))
    doomed = list(islice(found, room))
    decision.records += [commit_tombstone(group.group_id, *each) for each in doomed]
    return len(doomed) < room


def append_group_tombstones(group: Group, decision: Decision) -> None:
    """Forget a group that has no positions left."""
    decision.records += _group_tombstones(group)


def positions(group: Group) -> Iterator[tuple[str, int]]:
    """(topic, partition) of all that is committed or pending."""
    for topic, partitions in group.offsets.items():
        for partition in partitions:
            yield topic, partition
    for topic, partition in group.pending:
        if group.committed(topic, partition) is None:
            yield topic, partition


def _is_older(group: Group, topic: str, partition: int, before_offset: int) -> bool:
    committed = group.committed(topic, partition)
    if committed is not None:
        return committed.record_offset < before_offset
    pending = group.pending.get((topic, partition), {})
    return any(unpack(each).record_offset < before_offset for each in pending.values())


def _check_empty(shard: Shard, group: Group, decision: Decision) -> int:
    if group.foreign is not None:
        is_empty = is_abandoned(shard, group, decision)
    else:
        classic = group.classic or wake(group, decision)
        is_empty = classic.state is State.EMPTY
    return error_codes.NONE if is_empty else error_codes.NON_EMPTY_GROUP


def _group_tombstones(group: Group) -> list[Record]:
    if group.foreign is not None:
        return group.foreign.tombstones()
    return [group_tombstone(group.group_id)]
