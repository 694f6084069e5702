"""StreamsGroupDescribe (89), versions 0-1: the topology, members and tasks of streams groups (KIP-1071).

- Answered UNSUPPORTED_VERSION for each group while ``streams.version`` is below 1.
- A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND with a message.
- A group whose topology has a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
- v1: the assignor of the next assignment (KIP-1357), and the status of the topology's description: none is stored,
  since there is no plug-in for them (KIP-1331).
"""

from functools import partial

from kpybroker.machines.groups.events import DescribeStreamsGroup
from kpybroker.machines.groups.streams.describe import not_described
from kpybroker.requests.serving.consumer_protocol import serves_streams_groups
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.described_groups import DescribedKind, described_groups
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work
from kpywire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

DENIED = "The described group uses topics that the client is not authorized to describe."


def handle(broker: Context, request: StreamsGroupDescribeRequest, call: Call) -> Work:
    """Ask the coordinator of each group."""
    kind = _WITH_DESCRIPTION if request.include_topology_description else _KIND
    return (yield from described_groups(broker, request, call, kind))


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
