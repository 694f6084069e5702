"""A topology as the topics of the cluster allow it: tasks by subtopology, and the internal topics that are missing.

(Kafka: ``InternalTopicManager``, ``ConfiguredTopology``.) It follows from the topology and the topics, so it is not in
the log: a coordinator computes it again when a topic of the topology has changed.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash, string_key
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.streams.partition_counts import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    Unconfigured,
    partition_counts,
)
from kpybroker.machines.groups.streams.topology import Topology, input_topics
from kpybroker.machines.metadata.topic_view import TopicView
from kpywire import error_codes
from kpywire.group_records.streams_group_topology import Subtopology, TopicInfo

MOST_SUBTOPOLOGIES: Final = 1_000
MOST_TASKS: Final = 50_000
"""The bounds of a topology. Beyond them one group would keep the coordinator of all groups busy for seconds."""

_SHOWN: Final = 3
"""The number of missing topics that a text names."""

_NONE: Final[Any] = {}


class InternalTopic(NamedTuple):
    """A repartition topic or a changelog, as the broker creates it."""

    name: str
    partitions: int
    replication_factor: int
    """0: the broker's default."""
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """One subtopology with its tasks."""

    tasks: int
    source_topics: frozenset[str]
    repartition_sources: Mapping[str, InternalTopic]
    repartition_sinks: frozenset[str]
    changelogs: Mapping[str, InternalTopic]

    @property
    def inputs(self) -> frozenset[str]:
        """All topics that it reads."""
        return self.source_topics | self.repartition_sources.keys()


class ConfiguredTopology(NamedTuple):
    """A topology and what is wrong with its topics. Without ``problem``, its tasks can be given to members."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """By id, sorted; None if the topics do not fit."""
    missing: Mapping[str, InternalTopic]
    """The internal topics that are to be created."""
    problem: Unconfigured | None

    @property
    def is_ready(self) -> bool:
        """Whether its tasks can be given to members."""
        return self.problem is None


def configure(topology: Topology, topics: TopicView) -> ConfiguredTopology:
    """Compare a topology with the topics that exist. Raises Refused if it cannot be computed, or is too large."""
    if len(topology.subtopologies) > MOST_SUBTOPOLOGIES:
        text = f"The topology has {len(topology.subtopologies)} subtopologies; at most {MOST_SUBTOPOLOGIES} are served."
        raise RequestRefused(error_codes.STREAMS_INVALID_TOPOLOGY, text)
    existing = {
        name: len(topics.by_name[name].partitions) for name in topology.required_topics if name in topics.by_name
    }
    try:
        _check_sources(topology, existing)
        counts = partition_counts(topology, existing)
        subtopologies = {
            each: _configured(topology.subtopologies[each], counts, existing)
            for each in sorted(topology.subtopologies, key=string_key)
        }
        tasks = sum(each.tasks for each in subtopologies.values())
        if tasks > MOST_TASKS:
            text = f"The topology has {tasks} tasks; at most {MOST_TASKS} are served."
            raise RequestRefused(error_codes.STREAMS_INVALID_TOPOLOGY, text)
        missing = _missing(subtopologies, topology, existing)
    except Unconfigured as problem:
        return ConfiguredTopology(topology.epoch, None, _NONE, problem)
    if not missing:
        return ConfiguredTopology(topology.epoch, subtopologies, _NONE, None)
    text = f"Internal topics are missing: {_summary(missing)}"
    return ConfiguredTopology(topology.epoch, subtopologies, missing, Unconfigured(MISSING_INTERNAL_TOPICS, text))


def _check_sources(topology: Topology, existing: Mapping[str, int]) -> None:
    missing = {name for each in topology.subtopologies.values() for name in each.source_topics if name not in existing}
    if missing:
        text = f"Source topics {_summary(sorted(missing, key=string_key))} are missing."
        raise Unconfigured(MISSING_SOURCE_TOPICS, text)


def _configured(
    subtopology: Subtopology, counts: Mapping[str, int], existing: Mapping[str, int]
) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        tasks=max(existing[name] if name in existing else counts[name] for name in input_topics(subtopology)),
        source_topics=frozenset(subtopology.source_topics),
        repartition_sources=_internal(subtopology.repartition_source_topics, counts),
        repartition_sinks=frozenset(subtopology.repartition_sink_topics),
        changelogs=_internal(subtopology.state_changelog_topics, counts),
    )


def _internal(topics: Collection[TopicInfo], counts: Mapping[str, int]) -> dict[str, InternalTopic]:
    for each in topics:
        if (each.partitions or counts[each.name]) < 1:
            raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, "Number of partitions must be at least 1.")
    found = {
        each.name: InternalTopic(
            each.name,
            each.partitions or counts[each.name],
            each.replication_factor,
            {config.key: config.value for config in each.topic_configs},
        )
        for each in topics
    }
    return {name: found[name] for name in in_hash_order(list(found), string_hash)}


def _missing(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: Topology, existing: Mapping[str, int]
) -> dict[str, InternalTopic]:
    """The internal topics that do not exist, in the order of Kafka's table. Raises Unconfigured if one that exists has
    another number of partitions."""
    internal: dict[str, InternalTopic] = {}
    for each in subtopologies.values():
        internal.update(each.repartition_sources)
        internal.update(each.changelogs)
    ordered = in_hash_order(list(internal), string_hash)
    for name in topology.required_topics:
        found, wanted = existing.get(name), internal.get(name)
        if found is not None and wanted is not None and found != wanted.partitions:
            text = (
                f"Existing topic {name} has different number of partitions: expected {wanted.partitions}, found {found}"
            )
            raise Unconfigured(INCORRECTLY_PARTITIONED_TOPICS, text)
    return {name: internal[name] for name in ordered if name not in existing}


def _summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} additional topics"
