"""Descriptions of topologies as bytes, and back (KIP-1331). Both are made in steps.

The bytes are a StreamsGroupTopologyDescriptionUpdate request of version 0, without the names of the group and its
member. (Kafka: ``StreamsGroupTopologyDescriptionConverter``.)
"""

from collections.abc import Generator, Sequence
from typing import Final, TypeVar

from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.steps import STEP_ELEMENTS
from kpywire.codec import decoder_in_steps, encoder_in_steps
from kpywire.messages import streams_group_describe as shown
from kpywire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

SOURCE: Final = 1
PROCESSOR: Final = 2
SINK: Final = 3
VERSION: Final = 0
T = TypeVar("T")
Steps = Generator[None, None, T]


class InvalidDescription(Exception):
    """A description that no topology has, with Kafka's words for it."""


def keeps_descriptions(broker: Context) -> bool:
    """Whether descriptions are kept here."""
    return bool(broker.config["kpybroker.group.streams.topology.description.max.bytes"])


def encoded(request: StreamsGroupTopologyDescriptionUpdateRequest) -> Steps[bytes]:
    """The bytes of a description that a member sent. Raises InvalidDescription."""
    sent = request.topology_description
    subtopologies = []
    for each in sent.subtopologies:
        nodes: list[TopologyDescriptionNode] = []
        for node in each.nodes:
            cleaned = yield from _cleaned(node)
            nodes.append(cleaned)
        subtopologies.append(TopologyDescriptionSubtopology(subtopology_id=each.subtopology_id, nodes=nodes))
        yield
    stores = []
    for store in sent.global_stores:
        source = yield from _cleaned(store.source)
        processor = yield from _cleaned(store.processor)
        if (source.node_type, processor.node_type) != (SOURCE, PROCESSOR):
            raise InvalidDescription("Global store must be composed of a source and a processor node.")
        stores.append(TopologyDescriptionGlobalStore(source=source, processor=processor))
    kept = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="",
        member_id="",
        topology_epoch=request.topology_epoch,
        topology_description=TopologyDescription(subtopologies=subtopologies, global_stores=stores),
    )
    parts: list[bytes] = []
    yield from encoder_in_steps(StreamsGroupTopologyDescriptionUpdateRequest, VERSION)(kept, parts)
    return b"".join(parts)


def _cleaned(node: TopologyDescriptionNode) -> Steps[TopologyDescriptionNode]:
    """A node with what its type has, each name once."""
    node_type = node.node_type
    if not SOURCE <= node_type <= SINK:
        raise InvalidDescription(f"Unknown topology node type: {node_type}")
    return TopologyDescriptionNode(
        name=node.name,
        node_type=node_type,
        source_topics=(yield from _once(node.source_topics)) if node_type == SOURCE else [],
        sink_topic=node.sink_topic if node_type == SINK else None,
        stores=(yield from _once(node.stores)) if node_type == PROCESSOR else [],
        successors=(yield from _once(node.successors)),
    )


def _once(names: Sequence[str]) -> Steps[list[str]]:
    found: dict[str, None] = {}
    for start in range(0, len(names), STEP_ELEMENTS):
        found.update(dict.fromkeys(names[start : start + STEP_ELEMENTS]))
        yield
    return list(found)


def decoded(kept: bytes) -> Steps[shown.TopologyDescription]:
    """The description in these bytes, as StreamsGroupDescribe has it. Raises Malformed."""
    request, _ = yield from decoder_in_steps(StreamsGroupTopologyDescriptionUpdateRequest, VERSION)(kept, 0)
    description = request.topology_description
    subtopologies = []
    for each in description.subtopologies:
        nodes = []
        for nth, node in enumerate(each.nodes, 1):
            if nth % STEP_ELEMENTS == 0:
                yield
            nodes.append(_shown(node))
        subtopologies.append(shown.TopologyDescriptionSubtopology(subtopology_id=each.subtopology_id, nodes=nodes))
        yield
    stores = []
    for store in description.global_stores:
        source, processor = _shown(store.source), _shown(store.processor)
        stores.append(shown.TopologyDescriptionGlobalStore(source=source, processor=processor))
        yield
    return shown.TopologyDescription(subtopologies=subtopologies, global_stores=stores)


def _shown(node: TopologyDescriptionNode) -> shown.TopologyDescriptionNode:
    return shown.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=node.source_topics,
        sink_topic=node.sink_topic,
        stores=node.stores,
        successors=node.successors,
    )
