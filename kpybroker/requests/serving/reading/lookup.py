"""The replica of a partition that is read, and the point where its log and the reader's part."""

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.session import Entry
from kpybroker.machines.partition.role import Role
from kpybroker.requests.serving.context import Context
from kpywire import error_codes
from kpywire.messages.fetch import EpochEndOffset


def find_replica(broker: Context, entry: Entry) -> Replica:
    """Find the replica of an entry that has none, or one that is gone. Raises KafkaError."""
    if entry.replica is not None:
        entry.unwatch()
    try:
        replica = broker.replicas.find(entry.topic, entry.index)
    except KafkaError as error:
        if entry.name is not None and error.code == error_codes.UNKNOWN_TOPIC_ID:
            raise _of_another_id(broker, entry.name, entry.index) from None
        raise
    entry.replica, entry.name = replica, replica.topic.name
    return replica


def _of_another_id(broker: Context, name: str, index: int) -> KafkaError:
    """Kafka's error for a topic id of a session that is no longer known. Kafka looks for a topic of the same name:
    either there is none, or it has another id."""
    held = broker.replicas.topics.get(name)
    there = held is not None and index in held.replicas
    return KafkaError(error_codes.INCONSISTENT_TOPIC_ID if there else error_codes.UNKNOWN_TOPIC_OR_PARTITION)


def divergence(role: Role, entry: Entry) -> EpochEndOffset | None:
    """The point where the reader's log diverges from this one, if it does (KIP-595)."""
    log = role.log
    epoch, end_offset = log.epochs.end_offset_for(entry.last_fetched_epoch, log.log_end_offset)
    if epoch < 0 or entry.fetch_offset < log.log_start_offset:
        raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
    if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
