"""StreamsGroupDescribe: API key 89."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct, u16


@message(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest:
    """Version 1 adds IncludeTopologyDescription (KIP-1331)."""

    group_ids: list[string]  # The ids of the groups to describe
    include_authorized_operations: bool  # Whether to include authorized operations.
    # Whether to include the full topology description from the topology description plugin in the response.
    include_topology_description: bool = field("1+", default=False)


@struct
class KeyValue:
    key: string  # key of the config
    value: string  # value of the config


@struct
class TopicInfo:
    name: string  # The name of the topic.
    # The number of partitions in the topic. Can be 0 if no specific number of partitions is enforced. Always 0 for
    # changelog topics.
    partitions: i32
    # The replication factor of the topic. Can be 0 if the default replication factor should be used.
    replication_factor: i16
    topic_configs: list[KeyValue]  # Topic-level configurations as key-value pairs.


@struct
class Subtopology:
    subtopology_id: string  # String to uniquely identify the subtopology.
    source_topics: list[string]  # The topics the subtopology reads from.
    repartition_sink_topics: list[string]  # The repartition topics the subtopology writes to.
    # The set of state changelog topics associated with this subtopology. Created automatically.
    state_changelog_topics: list[TopicInfo]
    # The set of source topics that are internally created repartition topics. Created automatically.
    repartition_source_topics: list[TopicInfo]


@struct
class Topology:
    epoch: i32  # The epoch of the currently initialized topology for this group.
    # The subtopologies of the streams application. This contains the configured subtopologies, where the number of
    # partitions are set and any regular expressions are resolved to actual topics. Null if the group is uninitialized,
    # source topics are missing or incorrectly partitioned.
    subtopologies: list[Subtopology] | None = field(default=None)


@struct
class Endpoint:
    host: string  # host of the endpoint
    port: u16  # port of the endpoint


@struct
class TaskOffset:
    subtopology_id: string  # The subtopology identifier.
    partition: i32  # The partition.
    offset: i64  # The offset.


@struct
class TaskIds:
    subtopology_id: string  # The subtopology identifier.
    partitions: list[i32]  # The partitions of the input topics processed by this member.


@struct
class Assignment:
    active_tasks: list[TaskIds]  # Active tasks for this client.
    standby_tasks: list[TaskIds]  # Standby tasks for this client.
    warmup_tasks: list[TaskIds]  # Warm-up tasks for this client.


@struct
class Member:
    member_id: string  # The member ID.
    member_epoch: i32  # The member epoch.
    instance_id: string | None = field(default=None)  # The member instance ID for static membership.
    rack_id: string | None = field(default=None)  # The rack ID.
    client_id: string  # The client ID.
    client_host: string  # The client host.
    topology_epoch: i32  # The epoch of the topology on the client.
    process_id: string  # Identity of the streams instance that may have multiple clients.
    # User-defined endpoint for Interactive Queries. Null if not defined for this client.
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]  # Used for rack-aware assignment algorithm.
    task_offsets: list[TaskOffset]  # Cumulative changelog offsets for tasks.
    task_end_offsets: list[TaskOffset]  # Cumulative changelog end offsets for tasks.
    assignment: Assignment  # The current assignment.
    target_assignment: Assignment  # The target assignment.
    is_classic: bool  # True for classic members that have not been upgraded yet.


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


@struct
class DescribedGroup:
    error_code: i16  # The describe error, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
    group_id: string  # The group ID string.
    group_state: string  # The group state string, or the empty string.
    group_epoch: i32  # The group epoch.
    assignment_epoch: i32  # The assignment epoch.
    # The topology metadata currently initialized for the streams application. Can be null in case of a describe error.
    topology: Topology | None = field(default=None)
    members: list[Member]  # The members.
    # 32-bit bitfield to represent authorized operations for this group.
    authorized_operations: i32 = field(default=-0x8000_0000)
    # The full topology description for this group. Non-null if and only if TopologyDescriptionStatus is AVAILABLE (3);
    # null otherwise.
    topology_description: TopologyDescription | None = field("1+", default=None)
    # The status of the topology description for this group, paired with TopologyDescription: 0=NOT_REQUESTED (client
    # did not set IncludeTopologyDescription; TopologyDescription is null); 1=NOT_STORED (no description recorded for
    # this group; TopologyDescription is null); 2=ERROR (broker failed to fetch the description, see broker logs;
    # TopologyDescription is null); 3=AVAILABLE (TopologyDescription is non-null and carries the description).
    topology_description_status: i8 = field("1+", default=0)
    # The task assignor that the group coordinator will use for the next assignment computation. This may differ from
    # the assignor that computed the current assignment, because changing the assignor configuration does not trigger a
    # rebalance. Null in case of a describe error.
    assignor_name: string | None = field("1+", default=None, ignorable=True)


@message(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse:
    """Version 1 adds TopologyDescription and TopologyDescriptionStatus (KIP-1331), and AssignorName (KIP-1357).
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - INVALID_REQUEST (version 0+)
    - INVALID_GROUP_ID (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    groups: list[DescribedGroup]  # Each described group.
