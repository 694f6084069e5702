"""Fetch before version 13, which names topics instead of their ids: for sources before Kafka 3.1. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

WITH_NAMES: Final = 12
"""The last version of Fetch that names topics."""
LAST_EPOCHS: Final = 12
"""The first version in which the epoch of the last record shows where logs diverge (KIP-595)."""


def named(request: FetchRequest, names: Mapping[bytes, str], version: int) -> FetchRequest:
    """A request with the names of its topics, by their ids here."""
    present = {(names[topic.topic_id], each.partition) for topic in request.topics for each in topic.partitions}
    topics = [
        FetchTopic(topic=names[topic.topic_id], partitions=[_without_epoch(each, version) for each in topic.partitions])
        for topic in request.topics
    ]
    forgotten = []
    for topic in request.forgotten_topics_data:
        name = names[topic.topic_id]
        gone = [index for index in topic.partitions if (name, index) not in present]  # of an earlier topic of the name
        if gone:
            forgotten.append(ForgottenTopic(topic=name, partitions=gone))
    return FetchRequest(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
    )


def _without_epoch(asked: FetchPartition, version: int) -> FetchPartition:
    if version >= LAST_EPOCHS:
        return asked
    return FetchPartition(
        partition=asked.partition,
        current_leader_epoch=asked.current_leader_epoch,
        fetch_offset=asked.fetch_offset,
        log_start_offset=asked.log_start_offset,
        partition_max_bytes=asked.partition_max_bytes,
    )


def identified(response: Any, ids: Mapping[str, bytes]) -> Any:
    """The answer to such a request, with the ids of its topics here. Other answers are returned as they are."""
    if isinstance(response, FetchResponse):
        for topic in response.responses:
            topic.topic_id = ids.get(topic.topic, topic.topic_id)
    return response
