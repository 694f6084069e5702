"""The metadata of a fork: one node of a cluster becomes a cluster of its own, in which a mirror's topics are writable.

The node is the only replica, and so the only one in sync, of every partition that it holds. Partitions that it does not
hold have no leader. The controllers and all other brokers are gone, and so are configs that are about the node's
addresses, its mirrors and its balancer. Tiered topics are left out, since the store belongs to the original.

Invariant: nothing in it leads to a node of the original, to its store, or to the source of a mirror.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.metadata.image_records import image_records
from kpybroker.machines.metadata.mirror_configs import PREFIX, SOURCE
from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.machines.metadata.topic_name import NEVER_TIERED
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.register_controller_record import RegisterControllerRecord
from kpywire.metadata_records.topic_record import TopicRecord

TIERED: Final = "remote.storage.enable"
OWN_PREFIX: Final = "kpybroker."
"""Configs for all brokers that begin so are about mirrors, the balancer and stores."""
OFFSETS_FIRST: Final = 0
REST: Final = 1


class HeldPartition(NamedTuple):
    """A partition that a fork has."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    """The leader epoch in the fork's metadata."""
    is_mirror: bool
    """The partition is of the mirror that is rehearsed."""


class ForkedMetadata:
    """The parts of an image that a fork by a node has."""

    def __init__(self, image: MetadataImage, node_id: int, mirror: str) -> None:
        self._image = image
        self._node_id = node_id
        self.mirrored = frozenset(
            name for name in image.topics if image.configs_of(TOPIC_RESOURCE, name).get(SOURCE) == mirror
        )
        """The topics of the mirror."""
        self.tiered = frozenset(
            name
            for name in image.topics
            if image.configs_of(TOPIC_RESOURCE, name).get(TIERED, "").lower() == "true"
            or (name in NEVER_TIERED and name.startswith("__remote"))
        )
        """The topics that are left out."""

    def held(self) -> list[HeldPartition]:
        """The partitions whose logs are forked. Those with the offsets of groups come first: what is forked later has
        all that they mean."""
        found = [
            HeldPartition(name, topic.id, index, each.leader_epoch + 1, name in self.mirrored)
            for name, topic in self._image.topics.items()
            if name not in self.tiered
            for index, each in topic.partitions.items()
            if self._node_id in each.replicas
        ]
        return sorted(found, key=lambda each: REST if not each.topic.startswith("__") else OFFSETS_FIRST)

    def absent(self) -> int:
        """The number of partitions that the node does not hold."""
        topics = self._image.topics
        return sum(
            self._node_id not in each.replicas
            for name, topic in topics.items()
            if name not in self.tiered
            for each in topic.partitions.values()
        )

    def records(self) -> Iterator[Any]:
        """The records of the fork's first snapshot."""
        left_out = {self._image.topics[name].id for name in self.tiered}
        for record in image_records(self._image):
            if isinstance(record, RegisterControllerRecord):
                continue
            if isinstance(record, RegisterBrokerRecord):
                if record.broker_id == self._node_id:
                    record.fenced = True  # until it registers again, as a node that has started
                    record.in_controlled_shutdown = False
                    yield record
            elif isinstance(record, TopicRecord | PartitionRecord):
                if record.topic_id not in left_out:
                    yield self._partition(record) if isinstance(record, PartitionRecord) else record
            elif not isinstance(record, ConfigRecord) or self._keeps(record):
                yield record

    def _partition(self, record: PartitionRecord) -> PartitionRecord:
        node_id = self._node_id
        record.leader = NO_LEADER  # the controller elects one when the broker registers
        record.leader_epoch += 1
        record.partition_epoch += 1
        record.adding_replicas, record.removing_replicas = [], []
        record.eligible_leader_replicas = record.last_known_elr = None
        if node_id in record.replicas:
            record.directories = [
                directory
                for replica, directory in zip(record.replicas, record.directories, strict=False)
                if replica == node_id
            ]
            record.replicas = [node_id]
            record.isr = [node_id]
            record.leader_recovery_state = 0
        return record

    def _keeps(self, record: ConfigRecord) -> bool:
        if record.resource_type == BROKER_RESOURCE:
            return not record.resource_name and not record.name.startswith(OWN_PREFIX)
        if record.resource_type == TOPIC_RESOURCE:
            name = record.resource_name
            is_of_mirror = name in self.mirrored and record.name.startswith(PREFIX)
            return name not in self.tiered and not is_of_mirror
        return True
