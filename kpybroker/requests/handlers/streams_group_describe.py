"""StreamsGroupDescribe (89), versions 0-1: the topology, members and tasks of streams groups (KIP-1071).

- Answered UNSUPPORTED_VERSION for each group while ``streams.version`` is below 1.
- A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND with a message.
- A group whose topology has a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
- v1: the assignor of the next assignment (KIP-1357), and on request the description of the topology with a status:
  none is kept, it could not be had, here it is (KIP-1331).
- The descriptions in one answer take at most `MOST_DESCRIPTION_BYTES` as they are kept. Those of further groups could
  not be had; asked for alone, they can.
"""

import logging
from functools import partial
from typing import Final

from kpybroker.machines.groups.streams.describe import AVAILABLE, FAILED, NOT_STORED, not_described
from kpybroker.machines.groups.streams.events import DescribeStreamsGroup, DescriptionOf
from kpybroker.requests.serving.consumer_protocol import serves_streams_groups
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.described_groups import DescribedKind, described_groups
from kpybroker.requests.serving.group_requests import group_request
from kpybroker.requests.serving.topology_descriptions import decoded, most_description_bytes
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from kpywire.errors import Malformed
from kpywire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

log = logging.getLogger("kpybroker.groups")

MOST_DESCRIPTION_BYTES: Final = 4 << 20
DENIED = "The described group uses topics that the client is not authorized to describe."


def handle(broker: Context, request: StreamsGroupDescribeRequest, call: Call) -> Work:
    """Ask the coordinator of each group."""
    if not request.include_topology_description:
        return (yield from described_groups(broker, request, call, _KIND))
    response: StreamsGroupDescribeResponse = yield from described_groups(broker, request, call, _WITH_DESCRIPTION)
    left_bytes = MOST_DESCRIPTION_BYTES
    for group in response.groups:
        if group.topology_description_status == AVAILABLE and group.topology_description is None:
            left_bytes -= yield from _describe_topology(broker, group, call, left_bytes)
    return response


def _describe_topology(broker: Context, group: DescribedGroup, call: Call, most_bytes: int) -> Work:
    """Fill in the description of a topology. Return its size."""
    if not most_description_bytes(broker):
        group.topology_description_status = NOT_STORED
        return 0
    kept = broker.groups.submit(
        group.group_id,
        group_request(broker, DescriptionOf(group.group_id, most_bytes), call),
        lambda _code: b"",
        writes=False,
    )
    if isinstance(kept, Pending):
        kept = kept.response if kept.resolved else (yield kept)
    if kept is None:
        group.topology_description_status = NOT_STORED
        return 0
    try:
        group.topology_description = yield from decoded(kept)
    except Malformed as why:
        group.topology_description_status = FAILED
        if kept:
            log.error("the description of the topology of %s cannot be read: %s", group.group_id, why)
    return len(kept)


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


_KIND = DescribedKind(
    StreamsGroupDescribeResponse, serves_streams_groups, DescribeStreamsGroup, not_described, _topics, DENIED
)
_WITH_DESCRIPTION = _KIND._replace(event=partial(DescribeStreamsGroup, with_description=True))
