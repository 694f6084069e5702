"""ShareGroupDescribe (77), version 1: the epochs, members and assignments of share groups (KIP-932).

- Answered UNSUPPORTED_VERSION for each group while ``share.version`` is below 1.
- A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND with a message.
- A group with a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from kpybroker.machines.groups.share.describe import not_described
from kpybroker.machines.groups.share.events import DescribeShareGroup
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.described_groups import DescribedKind, described_groups
from kpybroker.requests.serving.group_requests import DENIED_TOPICS
from kpybroker.requests.serving.share.protocol import serves_share_groups
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work
from kpywire.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse


def handle(broker: Context, request: ShareGroupDescribeRequest, call: Call) -> Work:
    """Ask the coordinator of each group."""
    return (yield from described_groups(broker, request, call, _KIND))


def _topics(group: DescribedGroup) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


_KIND = DescribedKind(
    ShareGroupDescribeResponse, serves_share_groups, DescribeShareGroup, not_described, _topics, DENIED_TOPICS
)
