"""The changes that one or more metadata records made, with the state before them.

The image calls a :class:`Changes` while it applies a record. :class:`MetadataDelta` is the implementation that
remembers everything for the subscribers that must act on it. Partitions and brokers are immutable, so remembering one
costs a reference.
"""

from collections.abc import Container, Iterable
from typing import Protocol

from kpybroker.machines.metadata.broker import BrokerRegistration
from kpybroker.machines.metadata.topic import Partition, Topic

ConfigResource = tuple[int, str]


class Changes(Protocol):
    """The receiver of each change, called right after the image made it."""

    def topic_created(self, topic: Topic) -> None:
        """A topic was created; its partitions follow."""

    def topic_deleted(self, topic: Topic) -> None:
        """A topic and all its partitions were deleted; ``topic`` still lists them."""

    def partition_changed(self, topic: Topic, partition_id: int, before: Partition | None) -> None:
        """A partition was created (``before`` is None) or changed."""

    def partitions_added(self, topic: Topic, added: Iterable[int]) -> None:
        """New partitions were created."""

    def broker_changed(self, broker_id: int, before: BrokerRegistration | None) -> None:
        """A broker registered or changed; if the image no longer has it, it was unregistered."""

    def controller_changed(self, controller_id: int) -> None:
        """A controller registered."""

    def config_changed(self, resource: ConfigResource, name: str) -> None:
        """A config of (resource type, resource name) was set, set again to the same value, or deleted."""

    def feature_changed(self, name: str) -> None:
        """A feature has another finalised level."""

    def producer_ids_changed(self) -> None:
        """The next block of producer ids has moved on."""

    def kept_changed(self, kind: str, key: object) -> None:
        """An ACL, client quota, SCRAM credential or delegation token changed; ``kind`` names the image's dictionary."""


class MetadataDelta:
    """The difference between two states of one image.

    ``first_offset`` and ``next_offset`` bound the records it covers. ``from_snapshot`` is set if the records came from
    a snapshot.
    """

    __slots__ = (
        "brokers",
        "configs",
        "controllers",
        "created_topics",
        "deleted_topics",
        "features",
        "first_offset",
        "from_snapshot",
        "kept",
        "next_offset",
        "partitions",
        "producer_ids",
        "removed_topics",
    )

    def __init__(self, first_offset: int = 0, *, from_snapshot: bool = False) -> None:
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.from_snapshot = from_snapshot
        self.created_topics: dict[bytes, Topic] = {}
        self.deleted_topics: dict[bytes, Topic] = {}
        self.removed_topics: dict[bytes, str] = {}
        """The ids and names of all deleted topics, even of topics that were created just before."""
        self.partitions: dict[bytes, dict[int, Partition | None]] = {}
        """Per topic id: each changed partition and its state before, None if it is new. Partitions of deleted topics
        are left out."""
        self.brokers: dict[int, BrokerRegistration | None] = {}
        """Each changed broker and its state before, None if it is new."""
        self.controllers: set[int] = set()
        self.configs: dict[ConfigResource, set[str]] = {}
        self.features: set[str] = set()
        self.producer_ids = False
        self.kept: dict[str, set[object]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing but offsets has changed (as after a NoOpRecord)."""
        return not (
            self.created_topics
            or self.deleted_topics
            or self.partitions
            or self.brokers
            or self.controllers
            or self.configs
            or self.features
            or self.producer_ids
            or self.kept
        )

    def with_partitions(self, named: Container[tuple[bytes, int]]) -> "MetadataDelta":
        """The same changes, without those of partitions that are not named, by topic id and number."""
        part = MetadataDelta(self.first_offset, from_snapshot=self.from_snapshot)
        part.next_offset = self.next_offset
        part.created_topics, part.deleted_topics = self.created_topics, self.deleted_topics
        part.removed_topics, part.brokers, part.controllers = self.removed_topics, self.brokers, self.controllers
        part.configs, part.features, part.kept = self.configs, self.features, self.kept
        part.producer_ids = self.producer_ids
        for topic_id, partitions in self.partitions.items():
            kept = {index: before for index, before in partitions.items() if (topic_id, index) in named}
            if kept:
                part.partitions[topic_id] = kept
        return part

    def topic_created(self, topic: Topic) -> None:
        self.created_topics[topic.id] = topic

    def topic_deleted(self, topic: Topic) -> None:
        self.partitions.pop(topic.id, None)
        self.removed_topics[topic.id] = topic.name
        if self.created_topics.pop(topic.id, None) is None:
            self.deleted_topics[topic.id] = topic

    def partition_changed(self, topic: Topic, partition_id: int, before: Partition | None) -> None:
        self.partitions.setdefault(topic.id, {}).setdefault(partition_id, before)

    def partitions_added(self, topic: Topic, added: Iterable[int]) -> None:
        changed = self.partitions.get(topic.id, {})
        self.partitions[topic.id] = {**dict.fromkeys(added), **changed}

    def broker_changed(self, broker_id: int, before: BrokerRegistration | None) -> None:
        self.brokers.setdefault(broker_id, before)

    def controller_changed(self, controller_id: int) -> None:
        self.controllers.add(controller_id)

    def config_changed(self, resource: ConfigResource, name: str) -> None:
        self.configs.setdefault(resource, set()).add(name)

    def feature_changed(self, name: str) -> None:
        self.features.add(name)

    def producer_ids_changed(self) -> None:
        self.producer_ids = True

    def kept_changed(self, kind: str, key: object) -> None:
        self.kept.setdefault(kind, set()).add(key)
