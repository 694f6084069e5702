"""ConsumerGroupDescribe (69), versions 0-1: the epochs, members and assignments of consumer groups (KIP-848).

- Answered UNSUPPORTED_VERSION for each group while ``group.version`` is below 1.
- v1: whether a member speaks the classic protocol or the new one (KIP-1099).
- A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND with a message.
- A group with a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from kpybroker.machines.groups.consumer.describe import DescribeConsumerGroup, not_described
from kpybroker.requests.serving.consumer_protocol import serves_consumer_groups
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.described_groups import DescribedKind, described_groups
from kpybroker.requests.serving.group_requests import DENIED_TOPICS
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work
from kpywire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(broker: Context, request: ConsumerGroupDescribeRequest, call: Call) -> Work:
    """Ask the coordinator of each group."""
    return (yield from described_groups(broker, request, call, _KIND))


def _topics(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


_KIND = DescribedKind(
    ConsumerGroupDescribeResponse, serves_consumer_groups, DescribeConsumerGroup, not_described, _topics, DENIED_TOPICS
)
