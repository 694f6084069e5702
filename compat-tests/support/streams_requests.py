"""Requests of members of streams groups (KIP-1071), with what Kafka demands of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from kpywire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TopicInfo,
)
from kpywire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

REBALANCE_MS = 10_000
IN_MEMORY_PLUGIN = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
"""The plug-in for descriptions of topologies that Kafka ships. Without it, a Kafka keeps none."""
SOURCE, PROCESSOR, SINK = 1, 2, 3
Tasks = Mapping[str, Sequence[int]]


def source_of(
    name: str,
    *topics: str,
    sinks: Sequence[str] = (),
    repartition: Sequence[TopicInfo] = (),
    changelogs: Sequence[TopicInfo] = (),
) -> Subtopology:
    """A subtopology that reads these topics."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(topics),
        source_topic_regex=[],
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartition),
        copartition_groups=[],
    )


def streaming(
    group: str,
    member_id: str,
    epoch: Any,
    *,
    active: Tasks | None = None,
    warmup: Tasks | None = None,
    **fields: Any,
) -> StreamsGroupHeartbeatRequest:
    """A heartbeat. One that joins, or lists tasks of a role, has the lists of all roles."""
    if epoch == 0:
        fields = {"rebalance_timeout_ms": REBALANCE_MS, "process_id": member_id, **fields}
    if epoch == 0 or active is not None or warmup is not None:
        lists = {"active_tasks": _listed(active), "standby_tasks": [], "warmup_tasks": _listed(warmup)}
        fields = {**lists, **fields}
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        endpoint_information_epoch=fields.pop("endpoint_information_epoch", 0),
        **fields,
    )


def node(name: str, node_type: int, *successors: str, **fields: Any) -> TopologyDescriptionNode:
    """A node of a topology."""
    lists: dict[str, Any] = {"source_topics": [], "stores": [], **fields}
    return TopologyDescriptionNode(name=name, node_type=node_type, successors=list(successors), **lists)


def describing(
    group: str,
    member_id: str,
    epoch: int = 0,
    *,
    nodes: Sequence[TopologyDescriptionNode] | None = None,
    stores: Sequence[tuple[TopologyDescriptionNode, TopologyDescriptionNode]] = (),
) -> StreamsGroupTopologyDescriptionUpdateRequest:
    """The description of a topology with one subtopology: a source, a processor and a sink if nothing else is named."""
    usual = (
        node("source", SOURCE, "sum", source_topics=["lines"]),
        node("sum", PROCESSOR, "sink", stores=["totals"]),
        node("sink", SINK, sink_topic="sums"),
    )
    nodes = usual if nodes is None else nodes
    description = TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=list(nodes))],
        global_stores=[TopologyDescriptionGlobalStore(source=each, processor=other) for each, other in stores],
    )
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group, member_id=member_id, topology_epoch=epoch, topology_description=description
    )


def _listed(tasks: Tasks | None) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=each, partitions=list(indexes))
        for each, indexes in (tasks or {}).items()
    ]
