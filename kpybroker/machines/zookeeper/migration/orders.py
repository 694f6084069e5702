"""The requests by which a KRaft controller rules brokers in ZooKeeper mode (Kafka's ``MigrationPropagator``).

They carry the epoch that this controller has in ZooKeeper; the states of partitions in them carry the epoch of the
quorum, and brokers are addressed by the epochs of their registrations with the quorum.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kpybroker.machines.endpoints import SECURITY_PROTOCOLS
from kpybroker.machines.metadata.broker import BrokerRegistration
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import NO_LEADER, Partition
from kpybroker.machines.zookeeper.controller.assignment import ReplicaAssignment
from kpybroker.machines.zookeeper.controller.batch import (
    FULL,
    INCREMENTAL,
    UNKNOWN,
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    MetadataPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from kpybroker.machines.zookeeper.controller.context import Leadership, LiveBroker
from kpybroker.machines.zookeeper.tree.brokers import Registration, ZkEndpoint
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    LeaderIsrAndControllerEpoch,
)
from kpywire.uuid import ZERO_UUID

Partitions = dict[TopicPartition, Partition]
_NOTHING: Final[Partitions] = {}


def brokers_in_zookeeper_mode(image: MetadataImage) -> dict[int, LiveBroker]:
    """The brokers that get orders: those in ZooKeeper mode that are not fenced."""
    return {
        broker.id: LiveBroker(_registration(broker), broker.epoch)
        for broker in image.brokers.values()
        if broker.is_migrating_zk_broker and not broker.fenced
    }


def of_image(image: MetadataImage, controller_epoch: int, kraft_epoch: int) -> list[BrokerRequest]:
    """Everything, to everybody. Metadata come first, so that the leaders that orders name are known."""
    some = _Orders(image, controller_epoch, kraft_epoch)
    everybody = brokers_in_zookeeper_mode(image)
    every = _all_partitions(image)
    requests: list[BrokerRequest] = []
    for broker in everybody.values():
        requests.append(some.update_metadata(broker, every, UNKNOWN))
        requests.append(some.leader_and_isr(broker, every, FULL))
        requests.append(some.update_metadata(broker, every, FULL))
    return requests


def of_delta(
    image: MetadataImage, delta: MetadataDelta, controller_epoch: int, kraft_epoch: int
) -> list[BrokerRequest]:
    """The requests that follow from a change. A broker that has just come gets everything about its partitions."""
    everybody = brokers_in_zookeeper_mode(image)
    changed = {
        TopicPartition(topic.name, number): topic.partitions[number]
        for topic_id, numbers in delta.partitions.items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
        for number in numbers
    }
    if not everybody or not (delta.brokers or delta.deleted_topics or changed):
        return []
    some = _Orders(image, controller_epoch, kraft_epoch)
    arrived = {broker_id for broker_id in delta.brokers if broker_id in everybody}
    every = _all_partitions(image) if arrived else _NOTHING
    stopped = _stopped(image, delta)
    deleted = _deleted(image, delta, kraft_epoch)
    requests: list[BrokerRequest] = []
    for broker_id, broker in everybody.items():
        is_new = broker_id in arrived
        if delta.brokers:
            requests.append(some.update_metadata(broker, every if is_new else _NOTHING, UNKNOWN))
        ordered = some.leader_and_isr(broker, every if is_new else changed, INCREMENTAL)
        if ordered.partitions:
            requests.append(ordered)
        if changed or deleted:
            requests.append(some.update_metadata(broker, changed, INCREMENTAL, deleted))
        if broker_id in stopped:
            requests.append(some.stop_replica(broker, stopped[broker_id]))
    return requests


class _Orders:
    """Requests about one image."""

    def __init__(self, image: MetadataImage, controller_epoch: int, kraft_epoch: int) -> None:
        self._image = image
        self._controller_epoch = controller_epoch
        self._kraft_epoch = kraft_epoch
        self._alive = tuple(_registration(each) for each in image.brokers.values() if not each.fenced)

    def update_metadata(
        self,
        broker: LiveBroker,
        partitions: Partitions,
        kind: int,
        deleted: Mapping[TopicPartition, MetadataPartition] | None = None,
    ) -> UpdateMetadata:
        known = {place: self._known(partition) for place, partition in partitions.items()}
        topic_ids = self._topic_ids(partitions)
        topic_ids |= {each.topic: ZERO_UUID for each in deleted or () if each.topic not in topic_ids}
        return UpdateMetadata(
            broker.registration.broker_id,
            self._controller_epoch,
            broker.epoch,
            {**(deleted or {}), **known},
            topic_ids,
            self._alive,
            is_of_kraft=True,
            kind=kind,
        )

    def leader_and_isr(self, broker: LiveBroker, partitions: Partitions, kind: int) -> LeaderAndIsr:
        broker_id = broker.registration.broker_id
        own = {place: each for place, each in partitions.items() if broker_id in each.replicas}
        leaders = {each.leader for each in own.values()} - {NO_LEADER}
        return LeaderAndIsr(
            broker_id,
            self._controller_epoch,
            broker.epoch,
            {place: self._ordered(each) for place, each in own.items()},
            self._topic_ids(own),
            tuple(each for each in self._alive if each.broker_id in leaders),
            is_of_kraft=True,
            kind=kind,
        )

    def stop_replica(
        self, broker: LiveBroker, partitions: Mapping[TopicPartition, StopReplicaPartition]
    ) -> StopReplica:
        return StopReplica(
            broker.registration.broker_id, self._controller_epoch, broker.epoch, partitions, is_of_kraft=True
        )

    def _topic_ids(self, partitions: Partitions) -> dict[str, bytes]:
        return {each.topic: self._image.topics[each.topic].id for each in partitions}

    def _ordered(self, partition: Partition) -> LeaderAndIsrPartition:
        state = LeaderIsrAndControllerEpoch(
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=partition.isr,
            controller_epoch=self._kraft_epoch,
            recovery=partition.leader_recovery_state,
        )
        assignment = ReplicaAssignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)
        return LeaderAndIsrPartition(Leadership(state, partition.partition_epoch), assignment, is_new=True)

    def _known(self, partition: Partition) -> MetadataPartition:
        return MetadataPartition(
            controller_epoch=self._kraft_epoch,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=partition.isr,
            partition_epoch=partition.partition_epoch,
            replicas=partition.replicas,
            offline_replicas=_offline(self._image, partition.replicas),
        )


def _registration(broker: BrokerRegistration) -> Registration:
    return Registration(
        broker.id,
        tuple(ZkEndpoint(each.name, each.host, each.port) for each in broker.listeners.values()),
        {each.name: SECURITY_PROTOCOLS[each.security_protocol] for each in broker.listeners.values()},
        broker.rack,
    )


def _all_partitions(image: MetadataImage) -> Partitions:
    return {
        TopicPartition(topic.name, number): partition
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    }


def _offline(image: MetadataImage, replicas: Iterable[int]) -> tuple[int, ...]:
    def is_online(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    return tuple(each for each in replicas if not is_online(each))


def _deleted(image: MetadataImage, delta: MetadataDelta, kraft_epoch: int) -> dict[TopicPartition, MetadataPartition]:
    """The partitions of topics that were deleted. Brokers forget a topic whose partitions have no leader but -2."""
    return {
        TopicPartition(topic.name, number): MetadataPartition(
            controller_epoch=kraft_epoch,
            leader=LEADER_DURING_DELETE,
            leader_epoch=0,
            isr=partition.isr,
            partition_epoch=0,
            replicas=partition.replicas,
            offline_replicas=_offline(image, partition.replicas),
        )
        for topic in delta.deleted_topics.values()
        if topic.name not in image.topics
        for number, partition in topic.partitions.items()
    }


def _stopped(image: MetadataImage, delta: MetadataDelta) -> dict[int, dict[TopicPartition, StopReplicaPartition]]:
    """The replicas that each broker deletes: those of deleted topics, and those that a reassignment has removed."""
    found: dict[int, dict[TopicPartition, StopReplicaPartition]] = {}

    def stop(broker_id: int, place: TopicPartition, leader_epoch: int) -> None:
        found.setdefault(broker_id, {})[place] = StopReplicaPartition(leader_epoch, deletes=True)

    for topic in delta.deleted_topics.values():
        for number, partition in topic.partitions.items():
            for broker_id in partition.replicas:
                stop(broker_id, TopicPartition(topic.name, number), EPOCH_DURING_DELETE)
    for topic_id, numbers in delta.partitions.items():
        known = image.topics_by_id.get(topic_id)
        for number, before in numbers.items():
            if known is None or before is None:
                continue
            now = known.partitions[number]
            for broker_id in set(before.replicas) - set(now.replicas):
                stop(broker_id, TopicPartition(known.name, number), now.leader_epoch)
    return found
