"""OffsetDelete (47), version 0: delete committed offsets of a group (KIP-496).

- A topic to which a member of the group subscribes is GROUP_SUBSCRIBED_TO_TOPIC. A partition that does not exist is
  UNKNOWN_TOPIC_OR_PARTITION; these come before the coordinator's answers. An error of the group is at the top, and
  then there are no other answers.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import STEP_ELEMENTS
from kpywire import error_codes
from kpywire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(broker: Context, request: OffsetDeleteRequest, call: Call) -> Generator[None, None, Any]:
    """Refuse the partitions that do not exist. Pass the others to the group's coordinator, even if none are left."""
    if not request.group_id:
        return _refused(error_codes.INVALID_GROUP_ID)
    unknown: dict[str, OffsetDeleteResponseTopic] = {}
    existing = []
    for topic in request.topics:
        yield
        known = broker.image.topics.get(topic.name)
        here = () if known is None else known.partitions
        if known is None:
            _of(unknown, topic.name)
        for nth, each in enumerate(topic.partitions, 1):
            if nth % STEP_ELEMENTS == 0:
                yield
            if each.partition_index not in here:
                _of(unknown, topic.name).partitions.append(
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=error_codes.UNKNOWN_TOPIC_OR_PARTITION
                    )
                )
        partitions = [each for each in topic.partitions if each.partition_index in here]
        if partitions:
            existing.append(OffsetDeleteRequestTopic(name=topic.name, partitions=partitions))
    request.topics = existing

    def answer(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == error_codes.NONE:
            for found in response.topics:
                _of(unknown, found.name).partitions += found.partitions
            response.topics = list(unknown.values())
        return response

    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call),
        lambda code: _refused(coordinator_error(code)),
        answer=answer,
        timeout_ms=commit_timeout_ms(broker),
    )


def _of(topics: dict[str, OffsetDeleteResponseTopic], name: str) -> OffsetDeleteResponseTopic:
    return topics.setdefault(name, OffsetDeleteResponseTopic(name=name, partitions=[]))


def _refused(code: int) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=[])
