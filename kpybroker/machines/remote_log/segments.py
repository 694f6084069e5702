"""The records of ``__remote_log_metadata`` as values: segments in a store, their updates, and deleted partitions.

Names and numbers of states are Kafka's (``RemoteLogSegmentMetadata``, ``RemoteLogSegmentState``). Not here: bytes.
"""

from enum import IntEnum
from typing import Final, NamedTuple


class RemoteLogSegmentState(IntEnum):
    """The states of a segment. Only COPY_SEGMENT_FINISHED can be read."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """The states of a partition whose topic is deleted."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


STARTED: Final = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING: Final = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED: Final = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

_FIRST: Final = (STARTED,)
_FOLLOWS: Final = ((STARTED, FINISHED, DELETING), (FINISHED, DELETING), (DELETING, DELETED), (DELETED,))
"""The states that may come after each one, by its number."""


def may_follow(before: RemoteLogSegmentState | None, after: RemoteLogSegmentState) -> bool:
    """Whether a segment may go from a state, None for an unknown segment, to another. A state may be repeated."""
    return after in (_FIRST if before is None else _FOLLOWS[before])


def deletion_may_follow(before: RemotePartitionDeleteState | None, after: RemotePartitionDeleteState) -> bool:
    """Whether a partition's deletion may go from a state, None before it began, to another."""
    return after in (0 if before is None else before, 0 if before is None else before + 1)


class RemoteLogSegmentId(NamedTuple):
    """The name of one copy of a segment. A copy that is tried again has another ``segment_id``, a UUID."""

    topic_id: bytes
    topic: str
    partition: int
    segment_id: bytes


class RemoteLogSegment(NamedTuple):
    """A segment in a store (Kafka: ``RemoteLogSegmentMetadata``)."""

    id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    """Inclusive, as in Kafka's record: the next segment begins at ``end_offset + 1``."""
    broker_id: int
    """The broker that wrote the last state."""
    max_timestamp_ms: int
    event_timestamp_ms: int
    """The broker's wall clock at the last change of state."""
    leader_epochs: tuple[tuple[int, int], ...]
    """(epoch, first offset in this segment), ascending and not empty."""
    size_bytes: int
    """The size of the log file alone."""
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    is_transaction_index_empty: bool

    @property
    def next_offset(self) -> int:
        """The offset after the last one."""
        return self.end_offset + 1

    def epoch_start(self, epoch: int) -> int:
        """The first offset of an epoch that it has."""
        return next(start for each, start in self.leader_epochs if each == epoch)

    def epoch_end(self, epoch: int) -> int:
        """The offset after the last one of an epoch that it has."""
        following = next((start for each, start in self.leader_epochs if each > epoch), self.next_offset)
        return min(following, self.next_offset)

    def with_update(self, update: "RemoteLogSegmentUpdate") -> "RemoteLogSegment":
        """The segment after an update."""
        return self._replace(
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=update.custom_metadata,
            state=update.state,
        )

    def update(self, state: RemoteLogSegmentState, broker_id: int, timestamp_ms: int) -> "RemoteLogSegmentUpdate":
        """The record that changes its state and keeps its custom metadata."""
        return RemoteLogSegmentUpdate(self.id, timestamp_ms, self.custom_metadata, state, broker_id)


class RemoteLogSegmentUpdate(NamedTuple):
    """A change of a segment's state (Kafka: ``RemoteLogSegmentMetadataUpdate``)."""

    id: RemoteLogSegmentId
    event_timestamp_ms: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    broker_id: int


class RemotePartitionDelete(NamedTuple):
    """A change in the deletion of a partition (Kafka: ``RemotePartitionDeleteMetadata``)."""

    topic_id: bytes
    topic: str
    partition: int
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int


Record = RemoteLogSegment | RemoteLogSegmentUpdate | RemotePartitionDelete
