"""The content of ``__remote_log_metadata``, or of some of its partitions, as far as its records were applied.

Every broker applies the committed records of a partition in their order, so all see the same states, some later than
others (Kafka: ``RemotePartitionMetadataStore``). Not here: bytes of records (``kpywire``), and where they come from.

Invariant: the state equals a replay of the log; a record that does not apply changes nothing.
"""

from collections.abc import Iterator
from enum import Enum

from kpybroker.machines.remote_log.cache import RecordVerdict, RemoteSegments
from kpybroker.machines.remote_log.segments import (
    Record,
    RemoteLogSegment,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
    deletion_may_follow,
)

PartitionKey = tuple[bytes, int]
"""(topic id, partition)."""


class RecordRefusal(Enum):
    """The reasons why a record is not written, in addition to `RecordVerdict`."""

    PARTITION_IS_DELETED = "its partition is being deleted"
    ILLEGAL_DELETION = "its state cannot follow the present one of the partition's deletion"


def key_of(record: Record) -> PartitionKey:
    """The partition that a record is about."""
    if isinstance(record, RemotePartitionDelete):
        return record.topic_id, record.partition
    return record.id.topic_id, record.id.partition


class RemoteLogMetadata:
    """The segments of many partitions in a store."""

    def __init__(self) -> None:
        self._segments: dict[PartitionKey, RemoteSegments] = {}
        self._deletions: dict[PartitionKey, RemotePartitionDelete] = {}

    def refusal(self, record: Record) -> RecordVerdict | RecordRefusal | None:
        """The reason why a record is not to be written: it would change nothing."""
        key = key_of(record)
        if isinstance(record, RemotePartitionDelete):
            return None if deletion_may_follow(self.deletion_of(*key), record.state) else RecordRefusal.ILLEGAL_DELETION
        if isinstance(record, RemoteLogSegment) and key in self._deletions:
            return RecordRefusal.PARTITION_IS_DELETED
        verdict = (self._segments.get(key) or RemoteSegments(*record.id[:3])).verdict(record)
        return None if verdict is RecordVerdict.APPLIES else verdict

    def apply(self, record: Record) -> None:
        """Apply one record of the log."""
        if isinstance(record, RemotePartitionDelete):
            self._delete(record)
            return
        key = (record.id.topic_id, record.id.partition)
        segments = self._segments.get(key)
        if segments is None:
            if self.deletion_of(*key) is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                return  # its writer did not know of the end yet: nobody deletes such a segment but the sweep
            segments = RemoteSegments(*record.id[:3])
            if segments.verdict(record) is not RecordVerdict.APPLIES:
                return
            self._segments[key] = segments
        segments.apply(record)

    def _delete(self, record: RemotePartitionDelete) -> None:
        key = key_of(record)
        before = self._deletions.get(key)
        if before is not None and record.state < before.state:
            return
        self._deletions[key] = record
        if record.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            self._segments.pop(key, None)

    # Questions

    def segments_of(self, topic_id: bytes, partition: int) -> RemoteSegments | None:
        """The segments of a partition, None for one of which there is no record. A deleted partition has none, so
        what is left of it in the store is an orphan (`kpybroker.machines.remote_log.sweep`)."""
        key = (topic_id, partition)
        found = self._segments.get(key)
        if found is None and key in self._deletions:
            return RemoteSegments(topic_id, self._deletions[key].topic, partition)
        return found

    def deletion_of(self, topic_id: bytes, partition: int) -> RemotePartitionDeleteState | None:
        """How far the deletion of a partition is."""
        found = self._deletions.get((topic_id, partition))
        return None if found is None else found.state

    def partitions(self) -> Iterator[RemoteSegments]:
        """All partitions that have segments."""
        return iter(self._segments.values())

    def unfinished_deletions(self) -> Iterator[RemotePartitionDelete]:
        """The last record of each deletion that has not reached its end."""
        finished = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        return (each for each in self._deletions.values() if each.state is not finished)
