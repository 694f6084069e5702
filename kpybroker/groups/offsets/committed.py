"""An offset that a group committed, as the coordinator keeps it (Kafka: ``OffsetAndMetadata``)."""

from struct import Struct
from typing import Any, Final, NamedTuple

from kpybroker.groups.group import Group
from kpybroker.groups.record import Record
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.uuid import ZERO_UUID

NO_TIMESTAMP = -1
_FIXED = Struct(">qqqqi16s")
_VALUE_VERSION = 4
_EXPIRING_VALUE_VERSION = 1
_new: Final = tuple.__new__


class Committed(NamedTuple):
    """One partition's committed offset. ``record_offset`` is the offset of its record in ``__consumer_offsets``."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int


def pack(value: Any, record_offset: int) -> bytes:
    """Pack the value of a record, in the current or in the legacy layout, into a bytes object.

    A million of them take half the memory of objects, and the garbage collector does not have to traverse them.
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
    """Unpack the result of `pack`."""
    offset, record_offset, commit_timestamp_ms, expire_timestamp_ms, leader_epoch, topic_id = _FIXED.unpack_from(packed)
    metadata = packed[_FIXED.size :].decode()
    return Committed(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id, record_offset)


def find_committed(group: Group, topic: str, partition: int) -> Committed | None:
    """The committed offset of a partition."""
    partitions = group.offsets.get(topic)
    packed = None if partitions is None else partitions.get(partition)
    return None if packed is None else unpack(packed)


def commit_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> Record:
    """Make the record of a commit: version 4, or 1 if the client chose when it expires."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    version = _VALUE_VERSION if value.expire_timestamp == NO_TIMESTAMP else _EXPIRING_VALUE_VERSION
    return _new(Record, (key, value, version))


def commit_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Make the tombstone of a commit. It also removes what transactions have pending for the partition."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
