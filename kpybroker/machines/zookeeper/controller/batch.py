"""The requests of one change to brokers: LeaderAndIsr, UpdateMetadata, StopReplica (``ControllerBrokerRequestBatch``).

A change adds to a batch, and the batch leaves as a whole: to each broker LeaderAndIsr first, then UpdateMetadata, then
StopReplica. Only brokers that are registered get anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.machines.zookeeper.controller.assignment import BrokerIds, ReplicaAssignment
from kpybroker.machines.zookeeper.controller.context import ControllerContext, Leadership
from kpybroker.machines.zookeeper.tree.brokers import Registration
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, NO_EPOCH

UNKNOWN, INCREMENTAL, FULL = 0, 1, 2
"""The kinds of LeaderAndIsr and UpdateMetadata. A full request says what the receiver is to hold, and nothing else."""


class LeaderAndIsrPartition(NamedTuple):
    """The facts that a broker learns of a partition that it leads or follows."""

    leadership: Leadership
    assignment: ReplicaAssignment
    is_new: bool


class MetadataPartition(NamedTuple):
    """The facts that all brokers learn of a partition. ``leader`` is -2 while its topic is being deleted."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: BrokerIds
    partition_epoch: int
    replicas: BrokerIds
    offline_replicas: BrokerIds


class StopReplicaPartition(NamedTuple):
    """The replica that a broker stops, and whether it deletes the log."""

    leader_epoch: int
    deletes: bool


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """The start of each request to a broker. ``broker_epoch`` is that of its receiver."""

    receiver: int
    controller_epoch: int
    broker_epoch: int
    is_of_kraft: bool = field(default=False, kw_only=True)
    """Whether a KRaft controller sends it to a broker that is not migrated yet (KIP-866)."""
    kind: int = field(default=UNKNOWN, kw_only=True)
    """Whether it names everything (``AbstractControlRequest.Type``)."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsr(BrokerRequest):
    """Partitions that the receiver leads or follows. ``leaders`` are the brokers that lead them."""

    partitions: Mapping[TopicPartition, LeaderAndIsrPartition]
    topic_ids: Mapping[str, bytes]
    leaders: tuple[Registration, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadata(BrokerRequest):
    """Partitions of which something has changed, and all live brokers."""

    partitions: Mapping[TopicPartition, MetadataPartition]
    topic_ids: Mapping[str, bytes]
    live_brokers: tuple[Registration, ...]


@dataclass(frozen=True, slots=True)
class StopReplica(BrokerRequest):
    """Replicas that the receiver stops."""

    partitions: Mapping[TopicPartition, StopReplicaPartition]


@dataclass(slots=True)
class BrokerRequestBatch:
    """Requests that are being collected."""

    context: ControllerContext
    _leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartition]] = field(default_factory=dict)
    _stop_replica: dict[int, dict[TopicPartition, StopReplicaPartition]] = field(default_factory=dict)
    _informed: dict[int, None] = field(default_factory=dict)
    _metadata: dict[TopicPartition, MetadataPartition] = field(default_factory=dict)

    def leader_and_isr(
        self, broker_ids: Iterable[int], partition: TopicPartition, leadership: Leadership, *, is_new: bool
    ) -> None:
        """These brokers lead or follow the partition, and all brokers learn of it."""
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            states = self._leader_and_isr.setdefault(broker_id, {})
            was_new = partition in states and states[partition].is_new
            assignment = self.context.assignment(partition)
            states[partition] = LeaderAndIsrPartition(leadership, assignment, is_new or was_new)
        self.update_metadata(self.context.live_or_shutting_down_ids, [partition])

    def stop_replica(self, broker_id: int, partition: TopicPartition, *, deletes: bool) -> None:
        """A broker stops its replica. The epoch is -2 if the topic is to be deleted, so that no broker finds it old."""
        if broker_id < 0:
            return
        known = self.context.leadership.get(partition)
        leader_epoch = NO_EPOCH if known is None else known.state.leader_epoch
        if self.context.is_queued_for_deletion(partition.topic):
            leader_epoch = EPOCH_DURING_DELETE
        states = self._stop_replica.setdefault(broker_id, {})
        deleted = partition in states and states[partition].deletes
        states[partition] = StopReplicaPartition(leader_epoch, deletes or deleted)

    def update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """These brokers learn of all live brokers, and of these partitions, as they are now."""
        self._informed.update(dict.fromkeys(each for each in broker_ids if each >= 0))
        for partition in partitions:
            leadership = self.context.leadership.get(partition)
            if leadership is not None:
                self._metadata[partition] = self._metadata_of(partition, leadership)

    def _metadata_of(self, partition: TopicPartition, leadership: Leadership) -> MetadataPartition:
        state, partition_epoch = leadership
        leader, leader_epoch = state.leader, state.leader_epoch
        if self.context.is_queued_for_deletion(partition.topic):
            leader, leader_epoch, partition_epoch = LEADER_DURING_DELETE, 0, 0
        replicas = self.context.replicas(partition)
        return MetadataPartition(
            controller_epoch=state.controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=state.isr,
            partition_epoch=partition_epoch,
            replicas=replicas,
            offline_replicas=tuple(each for each in replicas if not self.context.is_online(each, partition)),
        )

    def end(self) -> list[BrokerRequest]:
        """The requests, in the order in which they leave. The batch is empty afterwards."""
        requests = [*self._all_leader_and_isr(), *self._all_update_metadata(), *self._all_stop_replica()]
        self._leader_and_isr, self._stop_replica, self._informed, self._metadata = {}, {}, {}, {}
        return requests

    def _all_leader_and_isr(self) -> Iterable[LeaderAndIsr]:
        brokers = self.context.brokers
        for receiver, partitions in self._leader_and_isr.items():
            if receiver not in brokers:
                continue
            leaders = {each.leadership.state.leader for each in partitions.values()} - {NO_LEADER}
            yield LeaderAndIsr(
                receiver,
                self.context.epoch,
                brokers[receiver].epoch,
                partitions,
                self._topic_ids(partitions),
                tuple(broker.registration for each, broker in brokers.items() if each in leaders),
            )

    def _all_update_metadata(self) -> Iterable[UpdateMetadata]:
        brokers = self.context.brokers
        everybody = tuple(broker.registration for broker in brokers.values())
        topic_ids = self._topic_ids(self._metadata)
        for receiver in self._informed:
            if receiver in brokers:
                epochs = (self.context.epoch, brokers[receiver].epoch)
                yield UpdateMetadata(receiver, *epochs, self._metadata, topic_ids, everybody)

    def _all_stop_replica(self) -> Iterable[StopReplica]:
        brokers = self.context.brokers
        for receiver, partitions in self._stop_replica.items():
            if receiver in brokers:
                yield StopReplica(receiver, self.context.epoch, brokers[receiver].epoch, partitions)

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, bytes]:
        known = self.context.topic_ids
        return {each.topic: known[each.topic] for each in partitions if each.topic in known}
