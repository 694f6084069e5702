"""All that the controller knows of the cluster (Kafka's ``ControllerContext``): brokers, topics, partitions, replicas.

It is read from ZooKeeper when a reign begins, and follows events from then on.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from kpybroker.machines.zookeeper.controller.assignment import BrokerIds, ReplicaAssignment
from kpybroker.machines.zookeeper.tree.brokers import Registration
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch

NO_ASSIGNMENT: Final = ReplicaAssignment(())


class PartitionState(Enum):
    """The states of a partition (``LeaderIsrAndControllerEpoch``)."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaState(Enum):
    """The states of a replica (``ReplicaState``)."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


class PartitionReplica(NamedTuple):
    """One replica (``PartitionAndReplica``)."""

    partition: TopicPartition
    broker_id: int


class Leadership(NamedTuple):
    """The content of ``state``, with its data version, the partition epoch (``LeaderIsrAndControllerEpoch``)."""

    state: LeaderIsrAndControllerEpoch
    partition_epoch: int


class LiveBroker(NamedTuple):
    """A registered broker. ``epoch`` is the transaction that created its znode."""

    registration: Registration
    epoch: int


class ControllerContext:
    """The cluster as this reign knows it."""

    def __init__(self, *, delete_topic_enable: bool = True) -> None:
        self.delete_topic_enable = delete_topic_enable
        self.epoch = 0
        self.brokers: dict[int, LiveBroker] = {}
        """Brokers with a registration, those that are shutting down among them."""
        self.shutting_down: set[int] = set()
        self.topic_ids: dict[str, bytes] = {}
        self.topics: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, Leadership] = {}
        self.reassigned: dict[TopicPartition, None] = {}
        """Partitions that are being reassigned, in the order in which it began."""
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[PartitionReplica, ReplicaState] = {}
        self.offline_directories: dict[int, set[TopicPartition]] = {}
        """The replicas of each broker that lie in a failed directory."""
        self.to_be_deleted: dict[str, None] = {}
        self.deletion_started: set[str] = set()
        self.ineligible: set[str] = set()
        """Topics whose deletion has to wait."""

    @property
    def live_ids(self) -> list[int]:
        """Brokers that are registered and not shutting down."""
        return [each for each in self.brokers if each not in self.shutting_down]

    @property
    def live_or_shutting_down_ids(self) -> list[int]:
        """All registered brokers."""
        return list(self.brokers)

    def is_online(self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """Whether a replica can serve: its broker lives, and its directory has not failed."""
        if broker_id not in self.brokers or (broker_id in self.shutting_down and not or_shutting_down):
            return False
        return partition not in self.offline_directories.get(broker_id, ())

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The replicas of a partition; none if it is not known."""
        return self.topics.get(partition.topic, {}).get(partition.partition, NO_ASSIGNMENT)

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Note the replicas of a partition."""
        self.topics.setdefault(partition.topic, {})[partition.partition] = assignment

    def replicas(self, partition: TopicPartition) -> BrokerIds:
        """The brokers of a partition's replicas."""
        return self.assignment(partition).replicas

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        return [TopicPartition(topic, each) for each in self.topics.get(topic, {})]

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Every partition of the cluster."""
        for topic in self.topics:
            yield from self.partitions_of(topic)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionReplica]:
        """Every replica of these partitions."""
        return [PartitionReplica(each, broker_id) for each in partitions for broker_id in self.replicas(each)]

    def replicas_on(self, broker_ids: Iterable[int]) -> list[PartitionReplica]:
        """Every replica on these brokers."""
        ids = frozenset(broker_ids)
        return [each for each in self.replicas_of(self.all_partitions()) if each.broker_id in ids]

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """The partitions that a broker leads."""
        return [each for each, (state, _) in self.leadership.items() if state.leader == broker_id]

    def partitions_in(self, *states: PartitionState) -> list[TopicPartition]:
        """The partitions in one of these states."""
        return [each for each, state in self.partition_states.items() if state in states]

    def replicas_in(self, topic: str, state: ReplicaState) -> list[PartitionReplica]:
        """The replicas of a topic in one state."""
        everybody = self.replicas_of(self.partitions_of(topic))
        return [each for each in everybody if self.replica_states.get(each) is state]

    def any_replica_in(self, topic: str, state: ReplicaState) -> bool:
        """Whether some replica of a topic is in one state."""
        return bool(self.replicas_in(topic, state))

    def all_replicas_in(self, topic: str, state: ReplicaState) -> bool:
        """Whether every replica of a topic is in one state. A topic without replicas counts."""
        return all(self.replica_states.get(each) is state for each in self.replicas_of(self.partitions_of(topic)))

    def is_queued_for_deletion(self, topic: str) -> bool:
        """Whether a topic is to be deleted."""
        return topic in self.to_be_deleted

    def is_deletion_in_progress(self, topic: str) -> bool:
        """Whether brokers are deleting replicas of a topic."""
        return self.delete_topic_enable and self.any_replica_in(topic, ReplicaState.DELETION_STARTED)

    def queue_deletion(self, topics: Iterable[str]) -> None:
        """Note that topics are to be deleted."""
        self.to_be_deleted.update(dict.fromkeys(topics))

    def begin_deletion(self, topics: Iterable[str]) -> None:
        """Note that brokers know of the deletion of topics."""
        self.deletion_started.update(topics)

    def remove_topic(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        for partition in self.partitions_of(topic):
            self.partition_states.pop(partition, None)
            self.leadership.pop(partition, None)
            self.reassigned.pop(partition, None)
        self.topics.pop(topic, None)
        self.topic_ids.pop(topic, None)
        self.to_be_deleted.pop(topic, None)
        self.deletion_started.discard(topic)
        self.ineligible.discard(topic)

    def remove_brokers(self, broker_ids: Iterable[int]) -> None:
        """Forget brokers whose registration is gone."""
        for broker_id in broker_ids:
            self.brokers.pop(broker_id, None)
