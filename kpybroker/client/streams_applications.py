"""Streams groups as their coordinator describes them (KIP-1071): the topology, and who has which tasks.

The coordinator does not say why a group is not ready, but it follows from the topics of its topology.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kpybroker.client.client import Spot
from kpywire.messages.streams_group_describe import Assignment, DescribedGroup, Subtopology, TaskIds, Topology

NOT_READY = "NotReady"


class ApplicationTasks(NamedTuple):
    """The tasks of a member, each as ``subtopology_partition``."""

    process_id: str
    epoch: int
    topology_epoch: int
    active: tuple[str, ...]
    standby: tuple[str, ...]
    missing: tuple[str, ...]
    """Active tasks that the member is to get, and has not yet."""


class Application(NamedTuple):
    """The topology of a streams group."""

    topology_epoch: int
    sources: frozenset[str]
    """The topics that it reads, and does not create."""
    internal: Mapping[str, int]
    """Its repartition topics and changelogs, with the partitions that it asks for; 0: as many as follow from others."""

    def why_not_ready(self, partitions: Mapping[str, int]) -> str:
        """The reason why tasks cannot be assigned; ``partitions`` are the counts of the topics that exist."""
        sources = sorted(self.sources - partitions.keys())
        if sources:
            return f"source topics are missing: {', '.join(sources)}"
        internal = sorted(self.internal.keys() - partitions.keys())
        if internal:
            return f"internal topics are missing: {', '.join(internal)}"
        counts = ", ".join(f"{name} {partitions[name]}" for name in sorted({*self.sources, *self.internal}))
        return f"numbers of partitions do not fit the topology: {counts}"


def application_of(found: DescribedGroup) -> Application:
    """The topology of a described group."""
    subtopologies = _subtopologies(found.topology)
    internal = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    }
    sources = frozenset(topic for each in subtopologies for topic in each.source_topics)
    epoch = -1 if found.topology is None else found.topology.epoch
    return Application(epoch, sources - internal.keys(), internal)


def tasks_of(member: Any) -> ApplicationTasks:
    """The tasks of a described member."""
    active = _names(member.assignment.active_tasks)
    wanted = _names(member.target_assignment.active_tasks)
    return ApplicationTasks(
        member.process_id,
        member.member_epoch,
        member.topology_epoch,
        active,
        _names(member.assignment.standby_tasks),
        tuple(each for each in wanted if each not in active),
    )


def inputs_of(topology: Topology | None, assignment: Assignment) -> tuple[Spot, ...]:
    """The partitions that a member reads for its active tasks."""
    by_id = {each.subtopology_id: each for each in _subtopologies(topology)}
    return tuple(
        Spot(topic, partition)
        for task in assignment.active_tasks
        if task.subtopology_id in by_id
        for topic in _inputs(by_id[task.subtopology_id])
        for partition in task.partitions
    )


def _inputs(subtopology: Subtopology) -> list[str]:
    return sorted({*subtopology.source_topics, *(each.name for each in subtopology.repartition_source_topics)})


def _subtopologies(topology: Topology | None) -> list[Subtopology]:
    return [] if topology is None else topology.subtopologies or []


def _names(tasks: Iterable[TaskIds]) -> tuple[str, ...]:
    return tuple(f"{task.subtopology_id}_{partition}" for task in tasks for partition in task.partitions)
