"""Requests in the form of brokers before Kafka 3.0: about one group or coordinator, where newer versions ask about
several, and for topics by their names only.

Requests are made in the newer form, and answers are given in it, so callers know nothing of this. Pure.
"""

from typing import Any, Final

from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kpywire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

STABLE_OFFSETS: Final = 7
"""The first version of OffsetFetch that can wait for the offsets of open transactions (KIP-447)."""


def asked(request: Any, version: int) -> Any:
    """A request in the form of an older version. One about several things is returned as it is: it cannot be sent."""
    if isinstance(request, DeleteTopicsRequest):
        return DeleteTopicsRequest(topic_names=request.topic_names, timeout_ms=request.timeout_ms)
    if isinstance(request, FindCoordinatorRequest) and len(request.coordinator_keys) == 1:
        return FindCoordinatorRequest(key=request.coordinator_keys[0], key_type=request.key_type)
    if isinstance(request, OffsetFetchRequest) and len(request.groups) == 1:
        (group,) = request.groups
        topics = None
        if group.topics is not None:
            topics = [
                OffsetFetchRequestTopic(name=each.name, partition_indexes=each.partition_indexes)
                for each in group.topics
            ]
        stable = request.require_stable and version >= STABLE_OFFSETS
        return OffsetFetchRequest(group_id=group.group_id, topics=topics, require_stable=stable)
    return request


def answered(request: Any, answer: Any) -> Any:
    """The answer to a request of `asked`, in the newer form."""
    if isinstance(answer, FindCoordinatorResponse):
        found = Coordinator(
            key=request.key,
            node_id=answer.node_id,
            host=answer.host,
            port=answer.port,
            error_code=answer.error_code,
            error_message=answer.error_message,
        )
        return FindCoordinatorResponse(throttle_time_ms=answer.throttle_time_ms, coordinators=[found])
    if isinstance(answer, OffsetFetchResponse):
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in answer.topics
        ]
        group = OffsetFetchResponseGroup(group_id=request.group_id, topics=topics, error_code=answer.error_code)
        return OffsetFetchResponse(throttle_time_ms=answer.throttle_time_ms, groups=[group])
    return answer
