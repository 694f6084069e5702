"""The topics for which a share group has delivery states: being initialised, initialised, or being deleted.

(Kafka: ``ShareGroupStatePartitionMetadataInfo``.) The states themselves are kept by the share coordinator.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.groups.epochs.member import NOTHING
from kpybroker.machines.metadata.topic_view import TopicView

UNKNOWN_NAME: Final = "<UNKNOWN>"

Partitions = Mapping[bytes, Collection[int]]
"""Partitions by topic id."""


class StateTopic(NamedTuple):
    """A topic, and those of its partitions that have a state."""

    name: str
    partitions: frozenset[int]


class StateTopics(NamedTuple):
    """All topics of one group, by their ids."""

    initializing: Mapping[bytes, StateTopic] = NOTHING
    initialized: Mapping[bytes, StateTopic] = NOTHING
    deleting: Mapping[bytes, str] = NOTHING
    """Names only."""

    @property
    def all_partitions(self) -> dict[bytes, StateTopic]:
        """The partitions that have a state, or will have one."""
        return merged(self.initialized, self.initializing)

    def with_initializing(self, topics: Mapping[bytes, StateTopic], view: TopicView) -> "StateTopics":
        """Add partitions whose states are being initialised. Their topics are no longer being deleted."""
        initializing = merged(self.initializing, topics)
        deleting = [topic_id for topic_id in self.deleting if topic_id not in initializing]
        return self._replace(initializing=initializing, deleting=named(deleting, view))

    def with_initialized(self, partitions: Partitions, view: TopicView) -> "StateTopics":
        """Note that states were initialised."""
        added = {
            topic_id: StateTopic(name_of(topic_id, view), frozenset(each)) for topic_id, each in partitions.items()
        }
        return StateTopics(
            without(self.initializing, partitions), merged(self.initialized, added), named(self.deleting, view)
        )

    def with_failed(self, partitions: Partitions, view: TopicView) -> "StateTopics":
        """Note that states could not be initialised."""
        return self._replace(initializing=without(self.initializing, partitions), deleting=named(self.deleting, view))

    def without_topics(self, topic_ids: Collection[bytes], view: TopicView) -> "StateTopics":
        """Forget topics that were deleted."""
        return StateTopics(
            {topic_id: topic for topic_id, topic in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in topic_ids},
            named([topic_id for topic_id in self.deleting if topic_id not in topic_ids], view),
        )

    def doomed(self, view: TopicView) -> tuple[dict[bytes, str], dict[bytes, set[int]]]:
        """All topics by name, and all their partitions that have a state, or may have one."""
        names = {topic_id: topic.name for topic_id, topic in self.all_partitions.items()}
        partitions = {topic_id: set(topic.partitions) for topic_id, topic in self.all_partitions.items()}
        for topic_id in self.deleting:
            known = view.by_id.get(topic_id)
            if known is not None:
                partitions.setdefault(topic_id, set()).update(known.partitions)
                names[topic_id] = known.name
        return names, partitions

    def has_any(self, topic_ids: Collection[bytes]) -> bool:
        """Whether one of these topics is among them."""
        return any(topic_id in each for topic_id in topic_ids for each in self)


class Initializations(dict[str, int]):
    """The time when each group last wrote its topics with states, on the clock of ``now_ms``; none if that was before
    the load."""


def merged(one: Mapping[bytes, StateTopic], other: Mapping[bytes, StateTopic]) -> dict[bytes, StateTopic]:
    """The partitions of both. The names are those of ``other`` where it has the topic."""
    result = dict(one)
    for topic_id, topic in other.items():
        before = result.get(topic_id)
        result[topic_id] = topic if before is None else StateTopic(topic.name, before.partitions | topic.partitions)
    return result


def without(topics: Mapping[bytes, StateTopic], partitions: Partitions) -> dict[bytes, StateTopic]:
    """The topics without these partitions. A topic without any is left out."""
    result = {}
    for topic_id, topic in topics.items():
        left = topic.partitions - frozenset(partitions.get(topic_id, ()))
        if left or topic_id not in partitions:
            result[topic_id] = topic._replace(partitions=left)
    return result


def named(topic_ids: Collection[bytes], view: TopicView) -> dict[bytes, str]:
    """Topic ids with their names."""
    return {topic_id: name_of(topic_id, view) for topic_id in topic_ids}


def name_of(topic_id: bytes, view: TopicView) -> str:
    """The name of a topic; for one that does not exist, Kafka's word."""
    topic = view.by_id.get(topic_id)
    return UNKNOWN_NAME if topic is None else topic.name
