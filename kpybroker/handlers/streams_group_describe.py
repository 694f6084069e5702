"""StreamsGroupDescribe (89), version 0: the topology, members and tasks of streams groups (KIP-1071).

- Answered UNSUPPORTED_VERSION for each group while ``streams.version`` is below 1.
- A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND with a message.
- A group whose topology has a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.calls.gathered import gathered
from kpybroker.calls.steps import each
from kpybroker.groups.events import DescribeStreamsGroup
from kpybroker.groups.streams.describe import not_described
from kpybroker.serving.consumer_protocol import serves_streams_groups
from kpybroker.serving.context import Context
from kpybroker.serving.group_requests import coordinator_error, group_request
from kpybroker.serving.permissions import allowed_operations, denied_topics
from kpywire import error_codes
from kpywire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

DENIED = "The described group uses topics that the client is not authorized to describe."


def handle(broker: Context, request: StreamsGroupDescribeRequest, call: Call) -> Generator[None, None, Any]:
    """Ask the coordinator of each group."""
    operations = request.include_authorized_operations
    asked = yield from each(
        request.group_ids, lambda group_id: _ask(broker, group_id, call, with_operations=operations)
    )
    return gathered(asked, lambda groups: StreamsGroupDescribeResponse(throttle_time_ms=0, groups=groups))


def _ask(broker: Context, group_id: str, call: Call, *, with_operations: bool) -> Any:
    if not serves_streams_groups(broker):
        return not_described(group_id, error_codes.UNSUPPORTED_VERSION)
    if not group_id:
        return not_described(group_id, error_codes.INVALID_GROUP_ID)

    def answer(group: DescribedGroup) -> DescribedGroup:
        if group.error_code != error_codes.NONE:
            return group
        if denied_topics(broker, call, Operation.DESCRIBE, _topics(group)):
            return not_described(group_id, error_codes.TOPIC_AUTHORIZATION_FAILED, DENIED)
        if with_operations:
            group.authorized_operations = allowed_operations(broker, call, ResourceType.GROUP, group_id)
        return group

    return broker.groups.submit(
        group_id,
        group_request(broker, DescribeStreamsGroup(group_id), call),
        lambda code: not_described(group_id, coordinator_error(code)),
        answer=answer,
        writes=False,
    )


def _topics(group: DescribedGroup) -> list[str]:
    subtopologies = (group.topology and group.topology.subtopologies) or []
    return [
        name
        for each in subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics)),
        )
    ]
