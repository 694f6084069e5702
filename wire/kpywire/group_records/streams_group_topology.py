"""StreamsGroupTopology: a record of type 23, key and value."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, struct


@message(key=23, versions="0")
class StreamsGroupTopologyKey:
    group_id: string  # The group ID.


@struct
class TopicConfig:
    key: string  # The key of the topic-level configuration.
    value: string  # The value of the topic-level configuration.


@struct
class TopicInfo:
    name: string  # The name of the topic.
    # The number of partitions in the topic. Can be 0 if no specific number of partitions is enforced. Always 0 for
    # changelog topics.
    partitions: i32
    # The replication factor of the topic. Can be 0 if the default replication factor should be used.
    replication_factor: i16
    topic_configs: list[TopicConfig]  # Topic-level configurations as key-value pairs.


@struct
class CopartitionGroup:
    source_topics: list[i16]  # The topics the topology reads from. Index into the array on the subtopology level.
    # Regular expressions identifying topics the subtopology reads from. Index into the array on the subtopology level.
    source_topic_regex: list[i16]
    # The set of source topics that are internally created repartition topics. Index into the array on the subtopology
    # level.
    repartition_source_topics: list[i16]


@struct
class Subtopology:
    subtopology_id: string  # String to uniquely identify the subtopology.
    source_topics: list[string]  # The topics the topology reads from.
    source_topic_regex: list[string]  # Regular expressions identifying topics the subtopology reads from.
    state_changelog_topics: list[TopicInfo]  # The set of state changelog topics associated with this subtopology.
    repartition_sink_topics: list[string]  # The repartition topics the subtopology writes to.
    # The set of source topics that are internally created repartition topics.
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]  # A subset of source topics that must be copartitioned.


@message(key=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    epoch: i32  # The epoch of the topology.
    subtopologies: list[Subtopology]  # The sub-topologies of the streams application.
