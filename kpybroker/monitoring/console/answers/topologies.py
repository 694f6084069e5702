"""The topology of a streams group, as one of its members described it (KIP-1331)."""

from typing import Final, NamedTuple

from kpybroker.client.topology_descriptions import ABSENCES, nodes_of
from kpybroker.machines.console.groups import NodeRow
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest

MOST_NODES: Final = 500
HIDDEN: Final = "you may not see all topics of the topology"


class ShownTopology(NamedTuple):
    """The nodes that a page shows, and why there are none."""

    nodes: tuple[NodeRow, ...] = ()
    absence: str = ""
    left_out: int = 0


NO_TOPOLOGY: Final = ShownTopology()


async def shown_topology(node: NodeParts, viewer: Viewer, group_id: str) -> ShownTopology:
    """The nodes of a topology that a viewer may see."""
    request = StreamsGroupDescribeRequest(
        group_ids=[group_id], include_authorized_operations=False, include_topology_description=True
    )
    (found,) = (await node.ask(viewer, request)).groups
    if found.error_code:
        is_hidden = found.error_code == error_codes.TOPIC_AUTHORIZATION_FAILED
        return ShownTopology(absence=HIDDEN if is_hidden else error_codes.message(found.error_code))
    if found.topology_description is None:
        return ShownTopology(absence=ABSENCES.get(found.topology_description_status, ABSENCES[2]))
    rows: list[NodeRow] = []
    left_out = 0
    async for each in paced(nodes_of(found.topology_description)):
        if len(rows) == MOST_NODES:
            left_out += 1
        else:
            topics = tuple(topic for topic in each.topics if viewer.may_see_topic(topic))
            rows.append(NodeRow(each.subtopology, each.name, each.kind, topics, each.stores, each.successors))
    return ShownTopology(tuple(rows), "", left_out)
