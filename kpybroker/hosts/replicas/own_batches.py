"""A batch of this node's own for a partition that it leads, checked as the batch of any client that asks for all.

Its writers are not handlers of requests: dead letters of share groups, and records about tiered segments.
"""

from typing import NamedTuple

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpystorage.errors import StorageError
from kpywire import error_codes


class OwnBatch(NamedTuple):
    """A batch that was appended. ``next_offset`` is the one behind it."""

    replica: Replica
    leader: PartitionLeader
    next_offset: int


def append(replicas: Replicas, topic: str | bytes, index: int, batch: bytes, now_ms: int) -> OwnBatch | int:
    """Append a batch to a partition, whose topic is named or has this id; the error code if that fails."""
    try:
        replica = replicas.find(topic, index)
        leader, held = replica.led(), replica.topic
        if not leader.has_enough_in_sync(held.config.min_insync_replicas):
            return error_codes.NOT_ENOUGH_REPLICAS
        base_offset, next_offset, _ = leader.append(batch, held.validation, now_ms)
    except (KafkaError, StorageError) as error:
        return replicas.code_of(error)
    held.records_in += next_offset - base_offset
    held.bytes_in += len(batch)
    if replica.following:
        replica.appended()
    else:
        replica.changed()
    return OwnBatch(replica, leader, next_offset)
