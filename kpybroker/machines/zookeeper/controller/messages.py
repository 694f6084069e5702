"""The requests of a batch as messages: LeaderAndIsr, UpdateMetadata and StopReplica of Kafka 3.9, and their answers."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from kpybroker.machines.endpoints import protocol_id
from kpybroker.machines.zookeeper.controller import events
from kpybroker.machines.zookeeper.controller.batch import (
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    MetadataPartition,
    StopReplica,
    UpdateMetadata,
)
from kpybroker.machines.zookeeper.tree.brokers import Registration
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpywire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from kpywire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from kpywire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kpywire.uuid import ZERO_UUID

LEADER_AND_ISR_VERSION: Final = 7
STOP_REPLICA_VERSION: Final = 4
UPDATE_METADATA_VERSION: Final = 8
"""The versions of ``inter.broker.protocol.version`` 3.4 and later. There is no negotiation."""

Message = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
_T = TypeVar("_T")


def message_of(request: BrokerRequest, controller_id: int, listener: str) -> Message:
    """The message. ``listener`` is the one by which brokers reach one another."""
    match request:
        case LeaderAndIsr():
            return _leader_and_isr(request, controller_id, listener)
        case UpdateMetadata():
            return _update_metadata(request, controller_id)
        case StopReplica():
            return _stop_replica(request, controller_id)
    raise TypeError(f"{type(request).__name__} is no request to a broker")


def event_of_leader_and_isr(broker_id: int, sent: LeaderAndIsr, answer: LeaderAndIsrResponse) -> events.Event:
    """The event of an answer to LeaderAndIsr."""
    names = {topic_id: name for name, topic_id in sent.topic_ids.items()}
    errors = {
        TopicPartition(names[topic.topic_id], each.partition_index): each.error_code
        for topic in answer.topics
        if topic.topic_id in names
        for each in topic.partition_errors
    }
    return events.LeaderAndIsrResponseReceived(broker_id, answer.error_code, errors)


def event_of_stop_replica(broker_id: int, sent: StopReplica, answer: StopReplicaResponse) -> events.Event | None:
    """The event of an answer to StopReplica, if it deletes replicas."""
    deleted = [each for each, stop in sent.partitions.items() if stop.deletes]
    answered = {
        TopicPartition(each.topic_name, each.partition_index): each.error_code for each in answer.partition_errors
    }
    errors = {each: answered[each] for each in deleted if each in answered}
    if not errors:
        return None
    return events.TopicDeletionStopReplicaResponseReceived(broker_id, answer.error_code, errors)


def _leader_and_isr(request: LeaderAndIsr, controller_id: int, listener: str) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=controller_id,
        is_kraft_controller=request.is_of_kraft,
        type=request.kind,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=request.topic_ids.get(topic, ZERO_UUID),
                partition_states=[_leader_and_isr_state(number, each) for number, each in partitions],
            )
            for topic, partitions in by_topic(request.partitions).items()
        ],
        live_leaders=_live_leaders(request.leaders, listener),
    )


def _leader_and_isr_state(number: int, partition: LeaderAndIsrPartition) -> LeaderAndIsrPartitionState:
    (state, partition_epoch), assignment, is_new = partition
    return LeaderAndIsrPartitionState(
        partition_index=number,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=partition_epoch,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        is_new=is_new,
        leader_recovery_state=state.recovery,
    )


def _live_leaders(leaders: Iterable[Registration], listener: str) -> list[LeaderAndIsrLiveLeader]:
    return [
        LeaderAndIsrLiveLeader(broker_id=leader.broker_id, host_name=endpoint.host, port=endpoint.port)
        for leader in leaders
        for endpoint in leader.endpoints
        if endpoint.listener == listener
    ]


def _update_metadata(request: UpdateMetadata, controller_id: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=controller_id,
        is_kraft_controller=request.is_of_kraft,
        type=request.kind,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=request.topic_ids.get(topic, ZERO_UUID),
                partition_states=[_metadata_state(number, each) for number, each in partitions],
            )
            for topic, partitions in by_topic(request.partitions).items()
        ],
        live_brokers=live_brokers(request.live_brokers),
    )


def _metadata_state(number: int, partition: MetadataPartition) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=number,
        controller_epoch=partition.controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        zk_version=partition.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=list(partition.offline_replicas),
    )


def live_brokers(registrations: Iterable[Registration]) -> list[UpdateMetadataBroker]:
    """The brokers as UpdateMetadata lists them."""
    return [
        UpdateMetadataBroker(
            id=each.broker_id,
            endpoints=[
                UpdateMetadataEndpoint(
                    port=point.port,
                    host=point.host,
                    listener=point.listener,
                    security_protocol=protocol_id(each.protocols[point.listener]),
                )
                for point in each.endpoints
            ],
            rack=each.rack,
        )
        for each in registrations
    ]


def _stop_replica(request: StopReplica, controller_id: int) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_id=controller_id,
        is_kraft_controller=request.is_of_kraft,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            StopReplicaTopicState(
                topic_name=topic,
                partition_states=[
                    StopReplicaPartitionState(
                        partition_index=number, leader_epoch=each.leader_epoch, delete_partition=each.deletes
                    )
                    for number, each in partitions
                ],
            )
            for topic, partitions in by_topic(request.partitions).items()
        ],
    )


def by_topic(partitions: Mapping[TopicPartition, _T]) -> dict[str, list[tuple[int, _T]]]:
    """The values of partitions, by topic."""
    grouped: dict[str, list[tuple[int, _T]]] = {}
    for (topic, number), each in partitions.items():
        grouped.setdefault(topic, []).append((number, each))
    return grouped
