"""AssignReplicasToDirs: brokers with several log directories report where they put their replicas (KIP-858)."""

from typing import Any

from kpybroker.machines.controller.brokers import leave_partitions
from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.topic import Partition, Topic, directory_is_online
from kpywire import error_codes
from kpywire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)


def assign_replicas_to_dirs(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Note in which log directory a broker keeps which of its replicas; it cannot lead from one that is offline."""
    message: AssignReplicasToDirsRequest = request.message
    if state.image.level < metadata_version.DIRECTORY_ASSIGNMENT:
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = state.broker(message.broker_id, message.broker_epoch)
    records: list[Any] = []
    offline: set[tuple[bytes, int]] = set()
    directories = []
    for wanted in message.directories:
        online = directory_is_online(wanted.id, broker.directories)
        topics = []
        for wanted_topic in wanted.topics:
            topic = state.image.topics_by_id.get(wanted_topic.topic_id)
            partitions = []
            for wanted_partition in wanted_topic.partitions:
                number = wanted_partition.partition_index
                code = _assign(state, topic, number, broker.id, wanted.id, records)
                if code == error_codes.NONE and not online:
                    offline.add((wanted_topic.topic_id, number))
                partitions.append(AssignReplicasToDirsResponsePartitionData(partition_index=number, error_code=code))
            topics.append(AssignReplicasToDirsResponseTopicData(topic_id=wanted_topic.topic_id, partitions=partitions))
        directories.append(AssignReplicasToDirsResponseDirectoryData(id=wanted.id, topics=topics))
    if offline:
        records += leave_partitions(state, broker.id, lambda topic, number, _partition: (topic.id, number) in offline)
    response = AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=error_codes.NONE, directories=directories)
    return records, response


def _assign(
    state: ControllerState,
    topic: Topic | None,
    partition_id: int,
    broker_id: int,
    directory: bytes,
    records: list[Any],
) -> int:
    if topic is None:
        return error_codes.UNKNOWN_TOPIC_ID
    partition: Partition | None = topic.partitions.get(partition_id)
    if partition is None:
        return error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in partition.replicas:
        return error_codes.NOT_LEADER_OR_FOLLOWER
    change = state.change(topic, partition_id)
    change.assign_directories({broker_id: directory})
    record = change.build()
    if record is not None:
        records.append(record)
    return error_codes.NONE
