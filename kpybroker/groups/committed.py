"""An offset that a group committed, as the coordinator keeps it (Kafka: ``OffsetAndMetadata``)."""

from typing import Any, NamedTuple

from kpybroker.groups.record import Record
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

NO_TIMESTAMP = -1
_VALUE_VERSION = 4
_EXPIRING_VALUE_VERSION = 1


class Committed(NamedTuple):
    """One partition's position. ``record_offset`` is where the log of the group's partition says so."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int


def commit_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> Record:
    """The record of a commit: version 4, or 1 if the client chose when it expires."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, value, _VALUE_VERSION if value.expire_timestamp == NO_TIMESTAMP else _EXPIRING_VALUE_VERSION)


def commit_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The record that forgets a commit, also what a transaction has pending for the partition."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def committed_by(value: Any, record_offset: int) -> Committed:
    """What a record's value says, of today's kind or of the first."""
    return Committed(
        value.offset,
        getattr(value, "leader_epoch", -1),
        value.metadata,
        value.commit_timestamp,
        getattr(value, "expire_timestamp", NO_TIMESTAMP),
        getattr(value, "topic_id", b"\0" * 16),
        record_offset,
    )
