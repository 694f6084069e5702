"""Requests of members and administrators of share groups."""

from collections.abc import Sequence
from typing import Any

from kpywire import api
from kpywire.messages import share_acknowledge, share_fetch
from kpywire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kpywire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kpywire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

Batch = tuple[int, int, Sequence[int]]
"""First and last offset, and the types of acknowledgement."""


def sharing(group: str, member: Any, epoch: Any, topics: list[str] | None = None, **fields: Any) -> Any:
    """A heartbeat."""
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics, **fields
    )


def acquiring(
    group: str, member: str, epoch: int, *topic_ids: Any, batches: Sequence[Batch] = (), **fields: Any
) -> share_fetch.ShareFetchRequest:
    """A ShareFetch of partition 0 of these topics."""
    sizes = {"max_wait_ms": 100, "min_bytes": 1, "max_records": 10, "batch_size": 10, **fields}
    acknowledged = [
        share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in batches
    ]
    partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=acknowledged)
    topics = [share_fetch.FetchTopic(topic_id=topic_id, partitions=[partition]) for topic_id in topic_ids]
    return share_fetch.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=[],
        **sizes,
    )


def acknowledging(
    group: str, member: str, epoch: int, topic_id: Any, *batches: Batch, **fields: Any
) -> share_acknowledge.ShareAcknowledgeRequest:
    """A ShareAcknowledge in partition 0 of a topic."""
    acknowledged = [
        share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in batches
    ]
    partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=acknowledged)
    topic = share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=group, member_id=member, share_session_epoch=epoch, topics=[topic], **fields
    )


def describing(group: str, *topics: str, everything: bool = False) -> DescribeShareGroupOffsetsRequest:
    """A DescribeShareGroupOffsets of partition 0 of these topics, or of all that have a state."""
    named = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in topics]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None if everything else named)
    return DescribeShareGroupOffsetsRequest(groups=[asked])


def altering(group: str, topic: str, partition: int = 0, offset: int = 0) -> AlterShareGroupOffsetsRequest:
    """An AlterShareGroupOffsets of one partition."""
    part = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    return AlterShareGroupOffsetsRequest(
        group_id=group, topics=[AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[part])]
    )


def deleting(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    """A DeleteShareGroupOffsets of these topics."""
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return DeleteShareGroupOffsetsRequest(group_id=group, topics=named)


def plausible_share_group(topic: str) -> dict[int, Any]:
    """A request of each of these APIs."""
    some_id = bytes(range(16))
    return {
        api.SHARE_GROUP_HEARTBEAT: sharing("plausible", "m", 0, [topic]),
        api.SHARE_GROUP_DESCRIBE: ShareGroupDescribeRequest(
            group_ids=["plausible"], include_authorized_operations=False
        ),
        api.SHARE_FETCH: acquiring("plausible", "m", 0, some_id),
        api.SHARE_ACKNOWLEDGE: acknowledging("plausible", "m", 1, some_id),
        api.DESCRIBE_SHARE_GROUP_OFFSETS: describing("plausible", topic),
        api.ALTER_SHARE_GROUP_OFFSETS: altering("plausible", topic),
        api.DELETE_SHARE_GROUP_OFFSETS: deleting("plausible", topic),
    }
