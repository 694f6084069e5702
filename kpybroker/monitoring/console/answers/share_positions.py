"""The positions of share groups in all partitions, as their coordinator describes them (DescribeShareGroupOffsets)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.monitoring.console.pace import paced
from kpywire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)

PER_REQUEST: Final = 50
"""The groups of one request: its answer is read in one step of the loop."""

Spot = tuple[str, int]


class SharePositions(NamedTuple):
    """The first offsets that a share group is not done with, and the records that it has left, where they are known."""

    starts: dict[Spot, int]
    left: dict[Spot, int]


async def share_positions(ask: Callable[[Any], Awaitable[Any]], names: Sequence[str]) -> dict[str, SharePositions]:
    """The positions of some groups. A group that is refused is left out."""
    found: dict[str, SharePositions] = {}
    for first in range(0, len(names), PER_REQUEST):
        some = names[first : first + PER_REQUEST]
        asked = [DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None) for each in some]
        answer = await ask(DescribeShareGroupOffsetsRequest(groups=asked))
        async for group in paced(answer.groups):
            if not group.error_code:
                found[group.group_id] = _positions(group)
    return found


def _positions(group: Any) -> SharePositions:
    found = SharePositions({}, {})
    for topic in group.topics:
        for each in topic.partitions:
            if not each.error_code and each.start_offset >= 0:
                found.starts[topic.topic_name, each.partition_index] = each.start_offset
                if each.lag >= 0:
                    found.left[topic.topic_name, each.partition_index] = each.lag
    return found
