"""OffsetFetch for one group: its committed offsets (Kafka: ``OffsetMetadataManager.fetchOffsets``).

A partition without a committed offset has -1 and no error, even in a group that does not exist. With ``require_stable``
a partition for which an open transaction has a pending offset is UNSTABLE_OFFSET_COMMIT (KIP-447).
"""

from kpybroker.groups.decision import Decision
from kpybroker.groups.events import GroupRequest
from kpybroker.groups.group import Group
from kpybroker.groups.offsets.committed import Committed, find_committed
from kpybroker.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kpywire.uuid import ZERO_UUID


def fetch_offsets(shard: GroupShard, request: GroupRequest, decision: Decision) -> None:
    """Answer an ``OffsetFetchRequestGroup``. Without topics it asks for all topics."""
    message = request.message
    group = shard.groups.get(message.group_id)
    error = error_codes.NONE if group is None else group.membership.check_fetch(message)
    if error:
        decision.reply(request.ticket, OffsetFetchResponseGroup(group_id=message.group_id, topics=[], error_code=error))
        return
    if message.topics is None:
        topics = [] if group is None else _all(group, require_stable=request.require_stable)
    else:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _position(group, topic.name, topic.topic_id, index, require_stable=request.require_stable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics
        ]
    decision.reply(request.ticket, OffsetFetchResponseGroup(group_id=message.group_id, topics=topics))


def _all(group: Group, *, require_stable: bool) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic,
            topic_id=ZERO_UUID,
            partitions=[
                _position(group, topic, ZERO_UUID, partition, require_stable=require_stable) for partition in partitions
            ],
        )
        for topic, partitions in group.offsets.items()
    ]


def _position(
    group: Group | None, topic: str, topic_id: bytes, partition: int, *, require_stable: bool
) -> OffsetFetchResponsePartitions:
    committed: Committed | None = None
    error_code = error_codes.NONE
    if group is not None:
        if require_stable and (topic, partition) in group.pending:
            error_code = error_codes.UNSTABLE_OFFSET_COMMIT
        else:
            committed = find_committed(group, topic, partition)
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
