"""One partition of ``__remote_log_metadata``: a machine for `kpybroker.machines.journal`.

It refuses records that Kafka would drop, before they are in the log, and keeps the segments of the partitions whose
records hash to it (Kafka: ``RemotePartitionMetadataStore``, ``TopicBasedRemoteLogMetadataManager``). Not here: bytes of
records (``kpywire``), and which partition of the topic this is.

Invariant: the state equals a replay of the log; a record that does not apply changes nothing.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from kpybroker.machines.journal import Effects, EventTooLarge, ProducerEpoch
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
    FENCED = "another broker leads its partition by now"
    TOO_LARGE = "the record does not fit in a batch"


NOT_FENCED: Final = -1


class WriteRecord(NamedTuple):
    """Write a record. The reply is None when it is committed, else a `RecordVerdict` or a `RecordRefusal`."""

    ticket: Any
    record: Record
    leader_epoch: int = NOT_FENCED
    """The epoch in which its writer leads the partition; -1 for a broker that does not say, such as Kafka's."""


class Lead(NamedTuple):
    """A broker leads a partition. When it gets the reply, None, no former leader writes about it any more, so what it
    reads then is complete. A refusal says that it is a former leader itself."""

    ticket: Any
    topic_id: bytes
    partition: int
    leader_epoch: int


class RemoteLogMetadata:
    """The segments of many partitions in a store."""

    def __init__(self) -> None:
        self._segments: dict[PartitionKey, RemoteSegments] = {}
        self._deletions: dict[PartitionKey, RemotePartitionDeleteState] = {}
        self._leader_epochs: dict[PartitionKey, int] = {}
        """Soft state: the records have no epochs. A leader leads again when another node leads this partition."""

    def decide(self, event: Any, now_ms: int) -> Effects:  # noqa: ARG002
        """Decide on an input: a record to write, or a new leader."""
        if isinstance(event, EventTooLarge):
            return Effects(replies=[(event.event.ticket, RecordRefusal.TOO_LARGE)])
        if isinstance(event, Lead):
            key = (event.topic_id, event.partition)
            before = self._leader_epochs.get(key, NOT_FENCED)
            self._leader_epochs[key] = max(before, event.leader_epoch)
            return Effects(replies=[(event.ticket, RecordRefusal.FENCED if event.leader_epoch < before else None)])
        if not isinstance(event, WriteRecord):
            raise TypeError(f"The metadata of a remote log do not handle {type(event).__name__}")
        refusal = self.refusal(event.record, event.leader_epoch)
        return Effects(() if refusal else [event.record], replies=[(event.ticket, refusal)])

    def refusal(self, record: Record, leader_epoch: int = NOT_FENCED) -> RecordVerdict | RecordRefusal | None:
        """The reason why a record is not to be written."""
        if isinstance(record, RemotePartitionDelete):
            before = self._deletions.get((record.topic_id, record.partition))
            return None if deletion_may_follow(before, record.state) else RecordRefusal.ILLEGAL_DELETION
        key = (record.id.topic_id, record.id.partition)
        if NOT_FENCED < leader_epoch < self._leader_epochs.get(key, NOT_FENCED):
            return RecordRefusal.FENCED
        if isinstance(record, RemoteLogSegment) and key in self._deletions:
            return RecordRefusal.PARTITION_IS_DELETED
        verdict = (self._segments.get(key) or RemoteSegments(*record.id[:3])).verdict(record)
        return None if verdict is RecordVerdict.APPLIES else verdict

    def apply(self, record: Record, _offset: int, _producer: ProducerEpoch | None) -> None:
        """Apply one record of the log, replayed or just written."""
        if isinstance(record, RemotePartitionDelete):
            key = (record.topic_id, record.partition)
            self._deletions[key] = record.state
            if record.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                self._segments.pop(key, None)
            return
        key = (record.id.topic_id, record.id.partition)
        segments = self._segments.get(key)
        if segments is None:
            segments = RemoteSegments(*record.id[:3])
            if segments.verdict(record) is not RecordVerdict.APPLIES:
                return
            self._segments[key] = segments
        segments.apply(record)

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:  # noqa: ARG002
        """Refuse: no producer writes to ``__remote_log_metadata`` in a transaction."""
        raise ValueError(f"A transaction marker of producer {producer.producer_id} at offset {offset}")

    # Questions

    def segments_of(self, topic_id: bytes, partition: int) -> RemoteSegments | None:
        """The segments of a partition, None for one of which there is no record. A deleted partition has none, so
        what is left of it in the store is an orphan (`kpybroker.machines.remote_log.sweep`)."""
        key = (topic_id, partition)
        found = self._segments.get(key)
        if found is None and key in self._deletions:
            return RemoteSegments(topic_id, "", partition)
        return found

    def deletion_of(self, topic_id: bytes, partition: int) -> RemotePartitionDeleteState | None:
        """How far the deletion of a partition is."""
        return self._deletions.get((topic_id, partition))

    def partitions(self) -> Iterator[RemoteSegments]:
        """All partitions that have segments."""
        return iter(self._segments.values())
