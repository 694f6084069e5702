"""Znodes by which brokers and old tools ask the controller for work: it does the work and deletes them."""

from typing import Final, NamedTuple

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import ZnodeFields, encode

LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
LOG_DIR_FAILED: Final = 1
"""The only event of log directories (``LogDirEventNotificationZNode.LogDirFailureEvent``)."""


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int


def encode_partitions(partitions: list[TopicPartition]) -> bytes:
    """The content of a notice of ISR changes, and of ``/admin/preferred_replica_election``."""
    return encode({"version": 1, "partitions": [each._asdict() for each in partitions]})


def decode_partitions(path: str, content: bytes | None) -> list[TopicPartition]:
    """The partitions that such a znode names."""
    return [_partition(each) for each in ZnodeFields.decode(path, content).objects("partitions")]


def encode_reassignments(targets: dict[TopicPartition, tuple[int, ...]]) -> bytes:
    """The content of ``/admin/reassign_partitions``."""
    entries = [{**partition._asdict(), "replicas": replicas} for partition, replicas in targets.items()]
    return encode({"version": 1, "partitions": entries})


def decode_reassignments(content: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """The target replicas of each partition."""
    entries = ZnodeFields.decode(paths.REASSIGN_PARTITIONS, content).objects("partitions")
    return {_partition(each): each.integers("replicas") for each in entries}


def encode_log_dir_failure(broker_id: int) -> bytes:
    """The content of a notice that a log directory of a broker has failed."""
    return encode({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILED})


def decode_log_dir_failure(path: str, content: bytes | None) -> int:
    """The broker that such a notice names."""
    return ZnodeFields.decode(path, content).integer("broker")


def _partition(fields: ZnodeFields) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.integer("partition"))
