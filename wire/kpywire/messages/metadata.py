"""Metadata: API key 3."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class MetadataRequestTopic:
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)  # The topic id.
    name: string | None = field(nullable="10+")  # The topic name.


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """In version 0, an empty array indicates "request metadata for all topics." In version 1 and higher, an empty
    array indicates "request metadata for no topics," and a null array is used to indicate "request metadata for
    all topics."
    Version 4 adds AllowAutoTopicCreation.
    Starting in version 8, authorized operations can be requested for cluster and topic resource.
    Version 9 is the first flexible version.
    Version 10 adds topicId and allows name field to be null.
    Versions 10 and 11 should not use the topicId field or set topic name to null.
    Version 11 deprecates IncludeClusterAuthorizedOperations field. This is now exposed by the DescribeCluster API
    (KIP-700).
    Version 12 supports topic Id.
    Version 13 supports top-level error code in the response.
    """

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")  # The topics to fetch metadata for.
    # If this is true, the broker may auto-create topics that we requested which do not already exist, if it is
    # configured to do so.
    allow_auto_topic_creation: bool = field("4+", default=True)
    # Whether to include cluster authorized operations.
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    # Whether to include topic authorized operations.
    include_topic_authorized_operations: bool = field("8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: i32  # The broker ID.
    host: string  # The broker hostname.
    port: i32  # The broker port.
    # The rack of the broker, or null if it has not been assigned to a rack.
    rack: string | None = field("1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: i16  # The partition error, or 0 if there was no error.
    partition_index: i32  # The partition index.
    leader_id: i32  # The ID of the leader broker.
    leader_epoch: i32 = field("7+", default=-1, ignorable=True)  # The leader epoch of this partition.
    replica_nodes: list[i32]  # The set of all nodes that host this partition.
    isr_nodes: list[i32]  # The set of nodes that are in sync with the leader for this partition.
    # The set of offline replicas of this partition.
    offline_replicas: list[i32] = field("5+", default=[], ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: i16  # The topic error, or 0 if there was no error.
    # The topic name. Null for non-existing topics queried by ID. This is never null when ErrorCode is zero. One of Name
    # and TopicId is always populated.
    name: string | None = field(nullable="12+")
    # The topic id. Zero for non-existing topics queried by name. This is never zero when ErrorCode is zero. One of Name
    # and TopicId is always populated.
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = field("1+", default=False, ignorable=True)  # True if the topic is internal.
    partitions: list[MetadataResponsePartition]  # Each partition in the topic.
    # 32-bit bitfield to represent authorized operations for this topic.
    topic_authorized_operations: i32 = field("8+", default=-0x8000_0000)


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """Version 1 adds fields for the rack of each broker, the controller id, and whether or not the topic is
    internal.
    Version 2 adds the cluster ID field.
    Version 3 adds the throttle time.
    Version 5 adds a per-partition offline_replicas field. This field specifies the list of replicas that are
    offline.
    Starting in version 6, on quota violation, brokers send out responses before throttling.
    Version 7 adds the leader epoch to the partition metadata.
    Starting in version 8, brokers can send authorized operations for topic and cluster.
    Version 9 is the first flexible version.
    Version 10 adds topicId.
    Version 11 deprecates ClusterAuthorizedOperations. This is now exposed by the DescribeCluster API (KIP-700).
    Version 12 supports topicId.
    Version 13 supports top-level error code in the response.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]  # A list of brokers present in the cluster.
    # The cluster ID that responding broker belongs to.
    cluster_id: string | None = field("2+", default=None, ignorable=True)
    controller_id: i32 = field("1+", default=-1, ignorable=True)  # The ID of the controller broker.
    topics: list[MetadataResponseTopic]  # Each topic in the response.
    # 32-bit bitfield to represent authorized operations for this cluster.
    cluster_authorized_operations: i32 = field("8-10", default=-0x8000_0000)
    error_code: i16 = field("13+", default=0, ignorable=True)  # The top-level error code, or 0 if there was no error.
