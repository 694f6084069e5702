"""ShareGroupDescribe (77), version 1: the epochs, members and assignments of share groups (KIP-932).

- Answered UNSUPPORTED_VERSION for each group while ``share.version`` is below 1.
- A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND with a message.
- A group with a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.calls.gathered import gathered
from kpybroker.calls.steps import each
from kpybroker.groups.share.describe import not_described
from kpybroker.groups.share.events import DescribeShareGroup
from kpybroker.serving.context import Context
from kpybroker.serving.group_requests import DENIED_TOPICS, coordinator_error, group_request
from kpybroker.serving.permissions import allowed_operations, denied_topics
from kpybroker.serving.share.protocol import serves_share_groups
from kpywire import error_codes
from kpywire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(broker: Context, request: ShareGroupDescribeRequest, call: Call) -> Generator[None, None, Any]:
    """Ask the coordinator of each group."""
    operations = request.include_authorized_operations
    asked = yield from each(
        request.group_ids, lambda group_id: _ask(broker, group_id, call, with_operations=operations)
    )
    return gathered(asked, lambda groups: ShareGroupDescribeResponse(throttle_time_ms=0, groups=groups))


def _ask(broker: Context, group_id: str, call: Call, *, with_operations: bool) -> Any:
    if not serves_share_groups(broker):
        return not_described(group_id, error_codes.UNSUPPORTED_VERSION)
    if not group_id:
        return not_described(group_id, error_codes.INVALID_GROUP_ID)

    def answer(group: DescribedGroup) -> DescribedGroup:
        if group.error_code != error_codes.NONE:
            return group
        names = {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}
        if denied_topics(broker, call, Operation.DESCRIBE, names):
            return not_described(group_id, error_codes.TOPIC_AUTHORIZATION_FAILED, DENIED_TOPICS)
        if with_operations:
            group.authorized_operations = allowed_operations(broker, call, ResourceType.GROUP, group_id)
        return group

    return broker.groups.submit(
        group_id,
        group_request(broker, DescribeShareGroup(group_id), call),
        lambda code: not_described(group_id, coordinator_error(code)),
        answer=answer,
        writes=False,
    )
