"""The record of a commit as a decision makes it: plain fields. Its key and value become messages only where the short
way of writing them does not fit. (Replayed commits, tombstones and legacy values are
`kpybroker.machines.groups.record.Record`.)
"""

from typing import final

from kpybroker.machines.groups.commit_bytes import VALUE_VERSION, encode_key, encode_value
from kpybroker.machines.groups.offsets.committed import NO_TIMESTAMP, pack
from kpybroker.machines.groups.record import Record
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue


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

    def messages(self) -> Record:
        """The same record with messages as key and value."""
        key = OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)
        value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.timestamp_ms,
            topic_id=self.topic_id,
        )
        return Record(key, value, VALUE_VERSION)

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
