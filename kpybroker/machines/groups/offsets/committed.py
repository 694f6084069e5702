"""An offset that a group committed, as the coordinator keeps it (Kafka: ``OffsetAndMetadata``)."""

from struct import Struct
from typing import Final, NamedTuple

from kpybroker.machines.groups.record import GroupRecord
from kpywire.group_records.offset_commit import OffsetCommitKey

NO_TIMESTAMP: Final = -1
_FIXED: Final = Struct(">qqqqi16s")
_pack_fixed: Final = _FIXED.pack


class CommittedOffset(NamedTuple):
    """One partition's committed offset. ``record_offset`` is the offset of its record in ``__consumer_offsets``."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int


def pack(
    offset: int,
    record_offset: int,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    leader_epoch: int,
    topic_id: bytes,
    metadata: str,
) -> bytes:
    """Pack the fields of `CommittedOffset` into a bytes object.

    A million of them take half the memory of objects, and the garbage collector does not have to traverse them.
    """
    fixed = _pack_fixed(offset, record_offset, commit_timestamp_ms, expire_timestamp_ms, leader_epoch, topic_id)
    return fixed + metadata.encode() if metadata else fixed


def unpack(packed: bytes) -> CommittedOffset:
    """Unpack the result of `pack`."""
    offset, record_offset, commit_timestamp_ms, expire_timestamp_ms, leader_epoch, topic_id = _FIXED.unpack_from(packed)
    metadata = packed[_FIXED.size :].decode()
    return CommittedOffset(
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id, record_offset
    )


def find_committed(offsets: dict[str, dict[int, bytes]], topic: str, partition: int) -> CommittedOffset | None:
    """The committed offset of a partition, out of those of its group."""
    partitions = offsets.get(topic)
    packed = None if partitions is None else partitions.get(partition)
    return None if packed is None else unpack(packed)


def commit_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    """Make the tombstone of a commit. It also removes what transactions have pending for the partition."""
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
