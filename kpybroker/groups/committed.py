"""An offset that a group committed, as the coordinator keeps it (Kafka: ``OffsetAndMetadata``)."""

from struct import Struct
from typing import Any, NamedTuple

from kpybroker.groups.record import Record
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.uuid import ZERO_UUID

NO_TIMESTAMP = -1
_FIXED = Struct(">qqqqi16s")
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


def pack(value: Any, record_offset: int) -> bytes:
    """What a record's value says, of today's kind or of the first, in a piece of bytes.

    A million of them take half the memory of objects, and give the garbage collector nothing to walk.
    """
    fixed = _FIXED.pack(
        value.offset,
        record_offset,
        value.commit_timestamp,
        getattr(value, "expire_timestamp", NO_TIMESTAMP),
        getattr(value, "leader_epoch", -1),
        getattr(value, "topic_id", ZERO_UUID),
    )
    return fixed + value.metadata.encode() if value.metadata else fixed


def unpack(packed: bytes) -> Committed:
    """The position in bytes of `pack`."""
    offset, record_offset, commit_timestamp_ms, expire_timestamp_ms, leader_epoch, topic_id = _FIXED.unpack_from(packed)
    metadata = packed[_FIXED.size :].decode()
    return Committed(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id, record_offset)


def commit_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> Record:
    """The record of a commit: version 4, or 1 if the client chose when it expires."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, value, _VALUE_VERSION if value.expire_timestamp == NO_TIMESTAMP else _EXPIRING_VALUE_VERSION)


def commit_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The record that forgets a commit, also what a transaction has pending for the partition."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
