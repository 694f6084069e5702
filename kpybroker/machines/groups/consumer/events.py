"""The requests about consumer groups that are not messages of the protocol."""

from typing import NamedTuple


class DescribeConsumerGroup(NamedTuple):
    """Describe one consumer group. It is answered by a ``DescribedGroup`` of ConsumerGroupDescribe."""

    group_id: str
