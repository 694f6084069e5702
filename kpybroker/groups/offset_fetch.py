"""OffsetFetch for one group: what is committed (Kafka: ``OffsetMetadataManager.fetchOffsets``).

What is not committed is -1 without an error, also of a group that does not exist. With ``require_stable`` a partition
for which an open transaction has something pending is UNSTABLE_OFFSET_COMMIT (KIP-447).
"""

from kpybroker.groups.committed import Committed
from kpybroker.groups.decision import Decision
from kpybroker.groups.events import GroupRequest
from kpybroker.groups.group import Group
from kpybroker.groups.shard import Shard
from kpywire import error_codes
from kpywire.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kpywire.uuid import ZERO_UUID


def fetch_offsets(shard: Shard, request: GroupRequest, decision: Decision) -> None:
    """Answer an ``OffsetFetchRequestGroup``; no topics are all topics."""
    message = request.message
    group = shard.groups.get(message.group_id)
    error = _check(group, request)
    if error:
        decision.reply(request.ticket, OffsetFetchResponseGroup(group_id=message.group_id, topics=[], error_code=error))
        return
    if message.topics is None:
        topics = [] if group is None else _all(group, request.require_stable)
    else:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _position(group, topic.name, topic.topic_id, index, request.require_stable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics
        ]
    decision.reply(request.ticket, OffsetFetchResponseGroup(group_id=message.group_id, topics=topics))


def _check(group: Group | None, request: GroupRequest) -> int:
    """Members of groups that are not served say their epoch (KIP-848); here none of them is current."""
    message = request.message
    if group is None or group.foreign is None or (message.member_id is None and message.member_epoch < 0):
        return error_codes.NONE
    return error_codes.UNKNOWN_MEMBER_ID if group.foreign.keeps_offsets else error_codes.NONE


def _all(group: Group, require_stable: bool) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic,
            topic_id=ZERO_UUID,
            partitions=[_position(group, topic, ZERO_UUID, partition, require_stable) for partition in partitions],
        )
        for topic, partitions in group.offsets.items()
    ]


def _position(
    group: Group | None, topic: str, topic_id: bytes, partition: int, require_stable: bool
) -> OffsetFetchResponsePartitions:
    committed: Committed | None = None
    error_code = error_codes.NONE
    if group is not None:
        if require_stable and (topic, partition) in group.pending:
            error_code = error_codes.UNSTABLE_OFFSET_COMMIT
        else:
            committed = group.committed(topic, partition)
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
