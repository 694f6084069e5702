"""StreamsGroupTopologyDescriptionUpdate: API key 93."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@struct
class TopologyDescriptionNode:
    name: string  # The name of this node (e.g., KSTREAM-SOURCE-0000000000).
    node_type: i8  # The type of this node: 1=SOURCE, 2=PROCESSOR, 3=SINK.
    # The source topics this node reads from. Defined only for source nodes, may be empty if source topics are
    # dynamically determined.
    source_topics: list[string]
    # The topic this node writes to. Defined only for sink nodes, may be null if sink topic is dynamically determined.
    sink_topic: string | None = field(default=None)
    stores: list[string]  # The state store names accessed by this node. Defined only for processor nodes.
    # The names of successor nodes in the processing graph. Predecessor relationships are reconstructed from this field.
    successors: list[string]


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: string  # The subtopology identifier, unique within the topology.
    nodes: list[TopologyDescriptionNode]  # The processing nodes in this subtopology.


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode  # The source node providing data to the global store.
    processor: TopologyDescriptionNode  # The processor node that populates the global store.


@struct
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology]  # The subtopologies that make up this topology.
    global_stores: list[TopologyDescriptionGlobalStore]  # Global state stores used by this topology.


@message(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: string  # The streams group identifier.
    # The ID of the streams group member sending the push. The broker validates that this member is still in the group;
    # mismatches (including when the group itself has been deleted) are rejected with UNKNOWN_MEMBER_ID so the client
    # treats itself as fenced and rejoins.
    member_id: string
    topology_epoch: i32  # The epoch of the topology being described.
    topology_description: TopologyDescription  # The topology description.


@message(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse:
    """Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - INVALID_REQUEST (version 0+)
    - UNSUPPORTED_VERSION (version 0+)
    - UNKNOWN_MEMBER_ID (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top-level error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
