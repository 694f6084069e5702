"""The record of a commit as a decision makes it: plain fields. Its key and value become messages only where the short
way of writing them does not fit. (Replayed commits, tombstones and legacy values are
`kpybroker.machines.groups.record.Record`.)
"""

from typing import Any, Final, final

from kpybroker.machines.groups.commit_bytes import VALUE_VERSION, encode_key, encode_value
from kpybroker.machines.groups.offsets.committed import NO_TIMESTAMP, pack
from kpybroker.machines.groups.record import GroupRecord
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.varint import as_int64

_EXPIRING_VALUE_VERSION: Final = 1


@final
class CommitRecord:
    """One partition's position in a group, to be written in version 4."""

    __slots__ = ("group_id", "leader_epoch", "metadata", "offset", "partition", "timestamp_ms", "topic", "topic_id")

    def __init__(  # noqa: PLR0913
        self,
        group_id: str,
        topic: str,
        partition: int,
        offset: int,
        leader_epoch: int,
        metadata: str,
        timestamp_ms: int,
        topic_id: bytes,
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.timestamp_ms = timestamp_ms
        self.topic_id = topic_id

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them."""
        key = encode_key(self.group_id, self.topic, self.partition)
        value = encode_value(self.offset, self.leader_epoch, self.metadata, self.timestamp_ms, self.topic_id)
        if key is None or value is None:
            return self.messages().encoded()
        return key, value

    def messages(self) -> GroupRecord:
        """The same record with messages as key and value."""
        key = OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)
        value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.timestamp_ms,
            topic_id=self.topic_id,
        )
        return GroupRecord(key, value, VALUE_VERSION)

    def packed(self, record_offset: int) -> bytes:
        """The position as a group keeps it, once it is written."""
        return pack(
            self.offset,
            record_offset,
            self.timestamp_ms,
            NO_TIMESTAMP,
            self.leader_epoch,
            self.topic_id,
            self.metadata,
        )


def expiry_ms(message: Any, timestamp_ms: int) -> int:
    """The time at which the committed offsets expire, if the client chose it, which was possible before version 5."""
    retention_ms = message.retention_time_ms
    return NO_TIMESTAMP if retention_ms == -1 else as_int64(timestamp_ms + retention_ms)


def position_record(
    group_id: str, topic: Any, partition: Any, timestamp_ms: int, expire_timestamp_ms: int, topic_id: bytes
) -> CommitRecord | GroupRecord:
    """The record of one partition's position: in version 4, or in version 1 if the client chose when it expires."""
    metadata = partition.committed_metadata or ""
    if expire_timestamp_ms == NO_TIMESTAMP:
        return CommitRecord(
            group_id,
            topic.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            metadata,
            timestamp_ms,
            topic_id,
        )
    key = OffsetCommitKey(group=group_id, topic=topic.name, partition=partition.partition_index)
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=topic_id,
    )
    return GroupRecord(key, value, _EXPIRING_VALUE_VERSION)


def java_length(text: str) -> int:
    """The length of a text as Java counts it: in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
