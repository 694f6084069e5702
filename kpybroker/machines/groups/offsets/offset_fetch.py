"""OffsetFetch for one group: its committed offsets (Kafka: ``OffsetMetadataManager.fetchOffsets``).

A partition without a committed offset has -1 and no error, even in a group that does not exist. With ``require_stable``
a partition for which an open transaction has a pending offset is UNSTABLE_OFFSET_COMMIT (KIP-447).

The answer about many partitions is a `OffsetsSnapshot` of their offsets. The shell makes the response of it, in steps.
"""

from collections.abc import Collection, Generator
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.committed import unpack
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kpywire.uuid import ZERO_UUID

FEW_POSITIONS: Final = 256
"""The most partitions that are answered at once."""
STEP_POSITIONS: Final = 64
"""The number of partitions that are answered in one step."""
_COPIED_PER_INDEX: Final = 16
"""How many offsets are copied with a topic for each one that is asked for."""
NOTHING: Final[dict[str, dict[int, bytes]]] = {}


class OffsetsSnapshot(NamedTuple):
    """The committed offsets of many partitions at one moment."""

    group_id: str
    asked: list[Any]
    """The topics, as the request names them; those of ``offsets`` if it asks for all."""
    offsets: dict[str, dict[int, bytes]]
    pending: Collection[tuple[str, int]]
    """The partitions that are unstable."""
    positions: int
    """The number of partitions in the answer."""

    def response(self) -> Generator[None, None, OffsetFetchResponseGroup]:
        """Return the answer, in steps."""
        topics: list[OffsetFetchResponseTopics] = []
        made = 0
        for name, topic_id, indexes in self._named():
            partitions: list[OffsetFetchResponsePartitions] = []
            of_topic = self.offsets.get(name)
            for index in indexes:
                made += 1
                if made % STEP_POSITIONS == 0:
                    yield
                packed = None if of_topic is None else of_topic.get(index)
                partitions.append(_position(packed, topic_id, index, is_unstable=(name, index) in self.pending))
            made += 1
            if made % STEP_POSITIONS == 0:
                yield
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
        return OffsetFetchResponseGroup(group_id=self.group_id, topics=topics)

    def _named(self) -> Generator[tuple[str, bytes, Collection[int]], None, None]:
        if self.asked:
            yield from ((topic.name, topic.topic_id, topic.partition_indexes) for topic in self.asked)
        else:
            yield from ((name, ZERO_UUID, of_topic) for name, of_topic in self.offsets.items())


def fetch_offsets(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer an ``OffsetFetchRequestGroup``. Without topics it asks for all topics."""
    message = request.message
    group = shard.groups.get(message.group_id)
    error = error_codes.NONE if group is None else group.membership.check_fetch(message)
    if error:
        decision.reply(request.ticket, OffsetFetchResponseGroup(group_id=message.group_id, topics=[], error_code=error))
        return
    asked, offsets = message.topics, NOTHING if group is None else group.offsets
    count = sum(map(len, offsets.values())) if asked is None else sum([len(each.partition_indexes) for each in asked])
    if count > FEW_POSITIONS or len(offsets if asked is None else asked) > FEW_POSITIONS:
        decision.reply(request.ticket, _snapshot(group, message, count, require_stable=request.require_stable))
        return
    if asked is None:
        topics = [] if group is None else _all(group, require_stable=request.require_stable)
    else:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _position_in(group, topic.name, topic.topic_id, index, require_stable=request.require_stable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked
        ]
    decision.reply(request.ticket, OffsetFetchResponseGroup(group_id=message.group_id, topics=topics))


def _all(group: Group, *, require_stable: bool) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic,
            topic_id=ZERO_UUID,
            partitions=[
                _position_in(group, topic, ZERO_UUID, partition, require_stable=require_stable)
                for partition in partitions
            ],
        )
        for topic, partitions in group.offsets.items()
    ]


def _snapshot(group: Group | None, message: Any, count: int, *, require_stable: bool) -> OffsetsSnapshot:
    if group is None:
        return OffsetsSnapshot(message.group_id, message.topics or [], {}, (), count)
    pending = frozenset(group.pending) if require_stable else ()
    if message.topics is None:
        kept = {name: of_topic.copy() for name, of_topic in group.offsets.items()}
    else:
        kept = {
            topic.name: _kept(of_topic, topic.partition_indexes)
            for topic in message.topics
            if (of_topic := group.offsets.get(topic.name)) is not None
        }
    return OffsetsSnapshot(message.group_id, message.topics or [], kept, pending, count)


def _kept(of_topic: dict[int, bytes], indexes: Collection[int]) -> dict[int, bytes]:
    if len(of_topic) <= len(indexes) * _COPIED_PER_INDEX:
        return of_topic.copy()
    return {index: of_topic[index] for index in indexes if index in of_topic}


def _position_in(
    group: Group | None, topic: str, topic_id: bytes, partition: int, *, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if group is None:
        return _position(None, topic_id, partition, is_unstable=False)
    of_topic = group.offsets.get(topic)
    packed = None if of_topic is None else of_topic.get(partition)
    is_unstable = require_stable and (topic, partition) in group.pending
    return _position(packed, topic_id, partition, is_unstable=is_unstable)


def _position(
    packed: bytes | None, topic_id: bytes, partition: int, *, is_unstable: bool
) -> OffsetFetchResponsePartitions:
    error_code = error_codes.UNSTABLE_OFFSET_COMMIT if is_unstable else error_codes.NONE
    committed = None if packed is None or is_unstable else unpack(packed)
    if committed is None or (ZERO_UUID not in (topic_id, committed.topic_id) and topic_id != committed.topic_id):
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=error_code,
        )
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error_codes.NONE,
    )
