"""ConsumerGroupDescribe (69), versions 0-1: the epochs, members and assignments of consumer groups (KIP-848).

- Answered UNSUPPORTED_VERSION for each group while ``group.version`` is below 1.
- v1: whether a member speaks the classic protocol or the new one (KIP-1099).
- A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND with a message.
- A group with a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.calls.gathered import gathered
from kpybroker.calls.steps import each
from kpybroker.groups.consumer.describe import not_described
from kpybroker.groups.events import DescribeConsumerGroup
from kpybroker.serving.consumer_protocol import serves_consumer_groups
from kpybroker.serving.context import Context
from kpybroker.serving.group_requests import coordinator_error, group_request
from kpybroker.serving.permissions import allowed_operations, denied_topics
from kpywire import error_codes
from kpywire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

DENIED = "The group has described topic(s) that the client is not authorized to describe."


def handle(broker: Context, request: ConsumerGroupDescribeRequest, call: Call) -> Generator[None, None, Any]:
    """Ask the coordinator of each group."""
    operations = request.include_authorized_operations
    asked = yield from each(
        request.group_ids, lambda group_id: _ask(broker, group_id, call, with_operations=operations)
    )
    return gathered(asked, lambda groups: ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=groups))


def _ask(broker: Context, group_id: str, call: Call, *, with_operations: bool) -> Any:
    if not serves_consumer_groups(broker):
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
        group_request(broker, DescribeConsumerGroup(group_id), call),
        lambda code: not_described(group_id, coordinator_error(code)),
        answer=answer,
        writes=False,
    )


def _topics(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
