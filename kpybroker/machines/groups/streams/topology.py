"""The topology of a streams application, as its first member sent it and as record 23 keeps it (Kafka:
``StreamsTopology``)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kpybroker.machines.groups.described_topology import DescribedTopologyValue
from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash
from kpywire.group_records import streams_group_topology as records
from kpywire.group_records.streams_group_topology import Subtopology, TopicInfo


class Topology(NamedTuple):
    """One epoch of a topology."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """By id, in the order of Kafka's table."""
    subtopology_of: Mapping[str, str]
    """The subtopology that reads each topic."""
    required_topics: tuple[str, ...]
    """All topics that it reads, and its changelogs, in the order of Kafka's table."""
    description: bytes | None = None
    """Its description (KIP-1331), as the record has it; None without one."""

    def is_same(self, other: "Topology") -> bool:
        """Whether two topologies are equal, apart from the order of their subtopologies."""
        return self.epoch == other.epoch and dict(self.subtopologies) == dict(other.subtopologies)


class DuplicateSubtopology(Exception):
    """Two subtopologies of a topology have the same id."""


def topology_of(value: DescribedTopologyValue) -> Topology:
    """The topology of a record. Raises DuplicateSubtopology."""
    by_id: dict[str, Subtopology] = {}
    for each in value.subtopologies:
        if each.subtopology_id in by_id:
            raise DuplicateSubtopology(each.subtopology_id)
        by_id[each.subtopology_id] = each
    subtopologies = {each: by_id[each] for each in in_hash_order(list(by_id), string_hash)}
    readers = {topic: each.subtopology_id for each in subtopologies.values() for topic in input_topics(each)}
    required = dict.fromkeys(
        topic
        for each in subtopologies.values()
        for topic in (*input_topics(each), *(changelog.name for changelog in each.state_changelog_topics))
    )
    topics = tuple(in_hash_order(list(required), string_hash))
    return Topology(value.epoch, subtopologies, readers, topics, value.description)


def input_topics(subtopology: Subtopology) -> Iterator[str]:
    """The topics that a subtopology reads."""
    yield from subtopology.source_topics
    for each in subtopology.repartition_source_topics:
        yield each.name


def as_recorded(topology: Topology, description: bytes) -> DescribedTopologyValue:
    """The value of record 23 for a topology with a description."""
    subtopologies = list(topology.subtopologies.values())
    return DescribedTopologyValue(epoch=topology.epoch, subtopologies=subtopologies, description=description)


def recorded(sent: Any) -> DescribedTopologyValue:
    """The value of record 23 for the topology of a heartbeat."""
    return DescribedTopologyValue(
        epoch=sent.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=_topics(each.repartition_source_topics),
                copartition_groups=[
                    records.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in sent.subtopologies
        ],
    )


def _topics(sent: Iterable[Any]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=[records.TopicConfig(key=config.key, value=config.value) for config in each.topic_configs],
        )
        for each in sent
    ]
