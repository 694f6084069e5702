"""The description of a streams group's topology, as its coordinator keeps it (KIP-1331)."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kpybroker.client.client import Client, raise_for
from kpywire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    TopologyDescription,
    TopologyDescriptionNode,
)

KINDS: Final = {1: "source", 2: "processor", 3: "sink"}
GLOBAL: Final = "global"
"""In place of a subtopology, for the nodes of global stores."""
AVAILABLE: Final = 3
ABSENCES: Final = {
    1: "no member has described the topology",
    2: "the broker could not get the description of the topology",
}


class TopologyNode(NamedTuple):
    """One node of a topology."""

    subtopology: str
    name: str
    kind: str
    topics: tuple[str, ...]
    """The topics that a source reads, or a sink writes to."""
    stores: tuple[str, ...]
    successors: tuple[str, ...]


def nodes_of(description: TopologyDescription) -> Iterator[TopologyNode]:
    """The nodes of a topology in their order, those of global stores last."""
    for each in description.subtopologies:
        for node in each.nodes:
            yield _node(each.subtopology_id, node)
    for store in description.global_stores:
        yield _node(GLOBAL, store.source)
        yield _node(GLOBAL, store.processor)


def _node(subtopology: str, node: TopologyDescriptionNode) -> TopologyNode:
    topics = (*node.source_topics, *([] if node.sink_topic is None else [node.sink_topic]))
    kind = KINDS.get(node.node_type, str(node.node_type))
    return TopologyNode(subtopology, node.name, kind, topics, tuple(node.stores), tuple(node.successors))


def topology_nodes(client: Client, group_id: str) -> list[TopologyNode] | str:
    """The nodes of a streams group's topology, or why there are none. Raises KafkaError."""
    request = StreamsGroupDescribeRequest(
        group_ids=[group_id], include_authorized_operations=False, include_topology_description=True
    )
    (found,) = client.retrying(lambda: client.call_coordinator(group_id, request)).groups
    raise_for(found.error_code, f"group {group_id}", found.error_message)
    if found.topology_description is None:
        return ABSENCES.get(found.topology_description_status, ABSENCES[2])
    return list(nodes_of(found.topology_description))
