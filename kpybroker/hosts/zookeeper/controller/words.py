"""The words of Kafka 3.9 for topics that cannot be created or grow (``ZkAdminManager``, ``AdminUtils``). Pure.

The decisions are those of KRaft controllers, which say the same in other words, and check the replicas first.
"""

from typing import Any

from kpywire import error_codes
from kpywire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from kpywire.messages.create_topics import CreatableTopic

DEFAULT = -1


def reword_creation(topic: CreatableTopic, answer: Any, default_replication_factor: int, brokers: int) -> None:
    """Replace the error of a topic with impossible counts."""
    reported = _of_counts(topic, default_replication_factor, brokers)
    if reported is not None and answer.error_code in (
        error_codes.INVALID_PARTITIONS,
        error_codes.INVALID_REPLICATION_FACTOR,
        error_codes.INVALID_REQUEST,
    ):
        answer.error_code, answer.error_message = reported


def _of_counts(topic: CreatableTopic, default_replication_factor: int, brokers: int) -> tuple[int, str] | None:
    partitions, replicas = topic.num_partitions, topic.replication_factor
    if topic.assignments:
        if (partitions, replicas) == (DEFAULT, DEFAULT):
            return None
        both = "Both numPartitions or replicationFactor and replicasAssignments were set."
        return error_codes.INVALID_REQUEST, f"{both} Both cannot be used at the same time."
    if partitions != DEFAULT and partitions <= 0:
        return error_codes.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
    if replicas == DEFAULT:
        replicas = default_replication_factor
    if replicas <= 0:
        return error_codes.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
    if replicas > brokers:
        words = f"Replication factor: {replicas} larger than available brokers: {brokers}."
        return error_codes.INVALID_REPLICATION_FACTOR, words
    return None


def reword_growth(wanted: CreatePartitionsTopic, answer: CreatePartitionsTopicResult, partitions: int) -> None:
    """Replace the message for a topic that does not exist, or would not grow. It has ``partitions`` now."""
    if answer.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
        answer.error_message = f"The topic '{wanted.name}' does not exist."
    elif answer.error_code == error_codes.INVALID_PARTITIONS and wanted.count < partitions:
        has = f"Topic currently has {partitions} partitions"
        answer.error_message = f"{has}, which is higher than the requested {wanted.count}."
    elif answer.error_code == error_codes.INVALID_PARTITIONS and wanted.count == partitions:
        answer.error_message = f"Topic already has {partitions} partitions."
