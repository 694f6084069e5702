"""Deletions in a store, in the order that loses nothing: log start, DELETE_SEGMENT_STARTED, objects,
DELETE_SEGMENT_FINISHED. Each step begins when the one before is committed or done.

All that has to survive a crash is in ``__remote_log_metadata``: a new leader finds segments in DELETE_SEGMENT_STARTED
and goes on. Deleting objects that are gone is a success. (Kafka: ``deleteRemoteLogSegment``,
``deleteRemoteLogPartition``, ``RemotePartitionDeleteState``.)

Invariant: no object is deleted before DELETE_SEGMENT_STARTED is committed, and nothing expired before the log start
has moved.
"""

from typing import Final, NamedTuple

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.copying import AppendRecord
from kpybroker.machines.remote_log.expiry import RemoteExpiry
from kpybroker.machines.remote_log.segments import (
    DELETED,
    DELETING,
    RemoteLogSegment,
    RemoteLogSegmentUpdate,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)

FIRST_RETRY_MS: Final = 1_000
LAST_RETRY_MS: Final = 300_000


class MoveLogStart(NamedTuple):
    """Move the log start, make it durable, and ask again."""

    offset: int


class DeleteObjects(NamedTuple):
    """Delete all objects of a segment; the answer is `Deletions.objects_deleted` or `Deletions.failed`."""

    segment: RemoteLogSegment


Effect = MoveLogStart | AppendRecord | DeleteObjects


class _SegmentDeletion:
    __slots__ = ("failures", "is_under_way", "retry_at_ms", "segment")

    def __init__(self, segment: RemoteLogSegment) -> None:
        self.segment = segment
        self.failures = 0
        self.is_under_way = False
        self.retry_at_ms = 0


class Deletions:
    """The deletions of one partition by its leader."""

    def __init__(self, broker_id: int, at_once: int = 10) -> None:
        """``at_once`` is how many segments are deleted at the same time."""
        self._broker_id = broker_id
        self._at_once = at_once
        self._of: dict[bytes, _SegmentDeletion] = {}
        self.last_error = ""

    @property
    def waiting(self) -> list[RemoteLogSegment]:
        """The segments that are not deleted yet (RemoteDeleteLagSegments, RemoteDeleteLagBytes)."""
        return [each.segment for each in self._of.values()]

    def begin(self, expiry: RemoteExpiry, log_start: int, now_ms: int, wall_ms: int) -> list[Effect]:
        """Delete the segments of an expiry. ``log_start`` is the log's durable start: while it is below that of the
        expiry, the effect is to move it, and only segments that no reader gets are deleted."""
        effects: list[Effect] = []
        asked = list(expiry.removed)
        if expiry.log_start is not None and log_start < expiry.log_start:
            effects.append(MoveLogStart(expiry.log_start))
        else:
            asked += expiry.expired
        for each in asked:
            self._of.setdefault(each.id.segment_id, _SegmentDeletion(each))
        return effects + self.due(now_ms, wall_ms)

    def due(self, now_ms: int, wall_ms: int) -> list[Effect]:
        """The next steps of deletions that wait for their turn or for the end of a pause."""
        effects: list[Effect] = []
        under_way = sum(each.is_under_way for each in self._of.values())
        for each in self._of.values():
            if under_way >= self._at_once:
                break
            if each.is_under_way or now_ms < each.retry_at_ms:
                continue
            each.is_under_way = True
            under_way += 1
            effects.append(
                DeleteObjects(each.segment)
                if each.segment.state is DELETING
                else AppendRecord(each.segment.update(DELETING, self._broker_id, wall_ms))
            )
        return effects

    def committed(self, update: RemoteLogSegmentUpdate) -> list[Effect]:
        """A record that this asked to append, or that another part wrote after a failed copy, is committed."""
        found = self._of.get(update.id.segment_id)
        if found is None:
            return []
        if update.state is DELETED:
            del self._of[update.id.segment_id]
        elif update.state is DELETING and found.segment.state is not DELETING:
            found.segment = found.segment.with_update(update)
            return [DeleteObjects(found.segment)]
        return []

    def objects_deleted(self, segment_id: bytes, wall_ms: int) -> list[Effect]:
        """All objects of a segment are gone."""
        found = self._of.get(segment_id)
        if found is None or found.segment.state is not DELETING:
            return []
        return [AppendRecord(found.segment.update(DELETED, self._broker_id, wall_ms))]

    def failed(self, segment_id: bytes, reason: str, now_ms: int) -> None:
        """A step failed: it is tried again after a pause, from the state that is committed."""
        found = self._of.get(segment_id)
        if found is None:
            return
        found.is_under_way = False
        found.retry_at_ms = now_ms + min(LAST_RETRY_MS, FIRST_RETRY_MS << min(found.failures, 30))
        found.failures += 1
        self.last_error = reason


class PartitionDeletion:
    """The deletion of a partition whose topic is gone: MARKED, STARTED, all segments, FINISHED."""

    def __init__(self, segments: RemoteSegments, broker_id: int, at_once: int = 10) -> None:
        self._segments = segments
        self._broker_id = broker_id
        self._deletions = Deletions(broker_id, at_once)
        self._asked: RemotePartitionDeleteState | None = None

    def next(self, state: RemotePartitionDeleteState | None, now_ms: int, wall_ms: int) -> list[Effect]:
        """The next steps; ``state`` is the one that is committed. Nothing else has to be remembered over a restart."""
        if state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED and len(self._segments):
            left = sorted(self._segments.all(), key=lambda each: (each.start_offset, each.id.segment_id))
            return self._deletions.begin(RemoteExpiry(None, tuple(left), (), 0), 0, now_ms, wall_ms)
        following = RemotePartitionDeleteState(0 if state is None else min(state + 1, 2))
        if state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED or following is self._asked:
            return []
        self._asked = following
        of = self._segments
        record = RemotePartitionDelete(of.topic_id, of.topic, of.partition, following, wall_ms, self._broker_id)
        return [AppendRecord(record)]

    def refused(self) -> None:
        """The last record of the partition was not appended: it is asked for again."""
        self._asked = None

    @property
    def segments(self) -> Deletions:
        """The deletions of its segments, which get the answers."""
        return self._deletions
