"""Descriptions of topologies as bytes, and back (KIP-1331). Both are made in steps.

The bytes are a StreamsGroupTopologyDescriptionUpdate request of version 0, without the names of the group and its
member. (Kafka: ``StreamsGroupTopologyDescriptionConverter``.)
"""

from collections.abc import Generator, Sequence
from typing import Final, TypeVar

from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, GivenUp, distinct
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
_LEAST_BYTES: Final = 1
"""The least size of a list, or of a struct around one name."""
T = TypeVar("T")
Steps = Generator[None, None, T]


class InvalidDescription(Exception):
    """A description that no topology has, with Kafka's words for it."""


def most_description_bytes(broker: Context) -> int:
    """The size of the largest description that is kept here; 0: none is kept."""
    return int(broker.config["kpybroker.group.streams.topology.description.max.bytes"])


class TooLarge(Exception):
    """A description is larger than what is kept."""


class _Size:
    """The least size of what was copied so far. ``most_bytes``: beyond it, the description is too large."""

    __slots__ = ("left_bytes",)

    def __init__(self, most_bytes: int) -> None:
        self.left_bytes = most_bytes

    def add(self, names: Sequence[str]) -> None:
        """Count one struct with these names. Raises TooLarge."""
        self.left_bytes -= _LEAST_BYTES + sum(map(len, names))
        if self.left_bytes < 0:
            raise TooLarge


def encoded(request: StreamsGroupTopologyDescriptionUpdateRequest, most_bytes: int) -> Steps[bytes]:
    """The bytes of a description that a member sent. Raises InvalidDescription; TooLarge if it is much larger than
    ``most_bytes``, before more memory is spent on it."""
    subtopologies: list[TopologyDescriptionSubtopology] = []
    stores: list[TopologyDescriptionGlobalStore] = []
    try:
        yield from _copy(request.topology_description, _Size(most_bytes), subtopologies, stores)
        kept = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="",
            member_id="",
            topology_epoch=request.topology_epoch,
            topology_description=TopologyDescription(subtopologies=subtopologies, global_stores=stores),
        )
        parts: list[bytes] = []
        yield from encoder_in_steps(StreamsGroupTopologyDescriptionUpdateRequest, VERSION)(kept, parts)
    except (InvalidDescription, TooLarge, GivenUp):
        yield from _forget(subtopologies, stores)
        raise
    yield from _forget(subtopologies, stores)
    return b"".join(parts)


def _copy(
    sent: TopologyDescription,
    size: _Size,
    subtopologies: list[TopologyDescriptionSubtopology],
    stores: list[TopologyDescriptionGlobalStore],
) -> Steps[None]:
    """Fill the lists with what is kept of a description. Raises InvalidDescription and TooLarge."""
    for each in sent.subtopologies:
        size.add((each.subtopology_id,))
        nodes: list[TopologyDescriptionNode] = []
        subtopologies.append(TopologyDescriptionSubtopology(subtopology_id=each.subtopology_id, nodes=nodes))
        for node in each.nodes:
            cleaned = yield from _cleaned(node, size)
            nodes.append(cleaned)
            if len(nodes) % STEP_ELEMENTS == 0:
                yield
        yield
    for store in sent.global_stores:
        source = yield from _cleaned(store.source, size)
        processor = yield from _cleaned(store.processor, size)
        if (source.node_type, processor.node_type) != (SOURCE, PROCESSOR):
            raise InvalidDescription("Global store must be composed of a source and a processor node.")
        stores.append(TopologyDescriptionGlobalStore(source=source, processor=processor))
        yield


def _forget(
    subtopologies: list[TopologyDescriptionSubtopology], stores: list[TopologyDescriptionGlobalStore]
) -> Steps[None]:
    """Let go of a copy in steps: at once, many objects take long."""
    freed = 0
    while subtopologies:
        nodes = subtopologies[-1].nodes
        freed += 1 + min(len(nodes), STEP_ELEMENTS)
        del nodes[-STEP_ELEMENTS:]
        if not nodes:
            del subtopologies[-1]
        if freed >= STEP_ELEMENTS:
            freed = 0
            yield
    while stores:
        del stores[-STEP_ELEMENTS:]
        yield


def _cleaned(node: TopologyDescriptionNode, size: _Size) -> Steps[TopologyDescriptionNode]:
    """A node with what its type has, each name once. Raises InvalidDescription and TooLarge."""
    node_type = node.node_type
    if not SOURCE <= node_type <= SINK:
        raise InvalidDescription(f"Unknown topology node type: {node_type}")
    topics = (yield from distinct(node.source_topics)) if node_type == SOURCE else []
    sink_topic = node.sink_topic if node_type == SINK else None
    stores = (yield from distinct(node.stores)) if node_type == PROCESSOR else []
    successors = yield from distinct(node.successors)
    for names in ((node.name, sink_topic or ""), topics, stores, successors):
        size.add(names)
    return TopologyDescriptionNode(
        name=node.name,
        node_type=node_type,
        source_topics=topics,
        sink_topic=sink_topic,
        stores=stores,
        successors=successors,
    )


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
