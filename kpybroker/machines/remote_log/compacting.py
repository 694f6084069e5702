"""Compaction of the part of a compacted log that a store has, by the leader of the partition.

The cleaner of a disk has passed each segment before it is copied; newer records make parts of it obsolete later. A pass
maps the keys of the part in the store that no pass has read yet, and writes all segments up to there again without the
records that are superseded, in groups of neighbours, the oldest first. A group of old segments is replaced in one
append: COPY_SEGMENT_FINISHED of the new one, DELETE_SEGMENT_STARTED of the old ones. A new segment says in its custom
metadata up to which offset newer records were considered, so the next leader finds where the dirty part begins.

Not here: reading, filtering and writing records (``kpystorage.compaction``), stores, files, clocks.

Invariants: no offset is ever without a readable segment; what a pass drops was superseded below its end. Below the
clean point there is no record in the store that a later one below it supersedes, so tombstones there may be dropped
when their time is over; none is dropped by the first pass that reads it.
"""

from collections.abc import Generator, Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.copying import AppendRecord, CopySettings, StopCopying
from kpybroker.machines.remote_log.lineage import STEP_SEGMENTS, counts, segment_for, with_records
from kpybroker.machines.remote_log.local_log import UNBOUNDED, LocalLog
from kpybroker.machines.remote_log.segments import (
    DELETING,
    FINISHED,
    STARTED,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentUpdate,
)
from kpystorage.errors import CorruptObject
from kpystorage.remote import custom_metadata

# What is in the store


class StoredPart(NamedTuple):
    """The part of a log that is read from one segment: from ``start`` to the segment's end."""

    segment: RemoteLogSegment
    start: int
    compacted_until: int
    """The end of the pass that wrote it; 0 for a copy of a segment of a disk."""

    @property
    def next_offset(self) -> int:
        """The offset behind it."""
        return self.segment.next_offset


def stored_parts(segments: RemoteSegments, log: LocalLog) -> Generator[None, None, tuple[StoredPart, ...]]:
    """The parts from the log start on, without a gap, in steps. The first may begin below the log start; the last ends
    before a copy that does not lie in the leader's history as a whole."""
    epochs = with_records(log.epochs)
    parts: list[StoredPart] = []
    offset = log.log_start_offset
    while (segment := segment_for(segments, log.epochs, offset)) is not None:
        if not counts(segment, log.end_offset, epochs):
            break
        start = offset if parts else segment.start_offset
        parts.append(StoredPart(segment, start, compacted_until(segment)))
        offset = segment.next_offset
        if len(parts) % STEP_SEGMENTS == 0:
            yield
    return tuple(parts)


def compacted_until(segment: RemoteLogSegment) -> int:
    """The end of the pass that wrote a segment; 0 for a copy of a segment of a disk."""
    try:
        return custom_metadata.decode(segment.custom_metadata).compacted_until or 0
    except CorruptObject:
        return 0


def epochs_of(parts: Sequence[StoredPart]) -> tuple[tuple[int, int], ...]:
    """The epochs of the records in neighbouring parts, each with its first offset there."""
    found: list[tuple[int, int]] = []
    for part in parts:
        for epoch, start in part.segment.leader_epochs:
            if part.segment.epoch_end(epoch) > part.start and (not found or found[-1][0] < epoch):
                found.append((epoch, max(start, part.start)))
    return tuple(found)


class StoredDirt(NamedTuple):
    """The work that a pass would have. Offsets are half-open: ``[first_dirty_offset, end_offset)``."""

    parts: tuple[StoredPart, ...]
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    oldest_ms: int
    """The timestamp of the newest record in the first dirty segment; it is the one that has waited longest."""

    @property
    def ratio(self) -> float:
        """The dirty part of what a pass would read."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth_it(self, min_dirty_ratio: float, max_lag_ms: int, wall_ms: int) -> bool:
        """Whether enough is dirty (``min.cleanable.dirty.ratio``), or it has waited too long
        (``max.compaction.lag.ms``). A single segment was compacted on a disk."""
        is_overdue = self.oldest_ms < wall_ms - max_lag_ms
        return len(self.parts) > 1 and self.dirty_bytes > 0 and (is_overdue or self.ratio > min_dirty_ratio)


def dirt_of(parts: tuple[StoredPart, ...]) -> StoredDirt:
    """Measure what there is to compact."""
    clean_until = UNBOUNDED
    for each in parts:
        if each.start < clean_until:
            clean_until = min(clean_until, max(each.compacted_until, each.start))
    end = parts[-1].next_offset if parts else 0
    clean_until = min(clean_until, end)
    dirty = [each.segment for each in parts if each.next_offset > clean_until]
    return StoredDirt(
        parts,
        clean_until,
        end,
        sum(each.segment.size_bytes for each in parts if each.next_offset <= clean_until),
        sum(each.size_bytes for each in dirty),
        dirty[0].max_timestamp_ms if dirty else UNBOUNDED,
    )


# One pass


class CleanNext(NamedTuple):
    """Clean the next group; the answer is `StoreCompaction.cleaned`, `StoreCompaction.ended` or
    `StoreCompaction.failed`."""


class CopyCleaned(NamedTuple):
    """Write the objects of a cleaned segment; the answer is `StoreCompaction.objects_written` or `failed`."""

    segment: RemoteLogSegment
    parts: tuple[StoredPart, ...]
    deadline_ms: int


class AppendTogether(NamedTuple):
    """Append records in one batch; the answer is `StoreCompaction.replaced` or `failed`."""

    records: tuple[RemoteLogSegmentUpdate, ...]


class EndPass(NamedTuple):
    """The pass is over: free what it has."""


Effect = CleanNext | AppendRecord | CopyCleaned | StopCopying | AppendTogether | EndPass


class CleanedGroup(NamedTuple):
    """Neighbouring parts that were cleaned into one segment."""

    parts: tuple[StoredPart, ...]
    size_bytes: int
    max_timestamp_ms: int
    is_transaction_index_empty: bool
    compacted_until: int
    """The end of the pass."""

    @property
    def start(self) -> int:
        """The first offset."""
        return self.parts[0].start

    @property
    def next_offset(self) -> int:
        """The offset behind the last one."""
        return self.parts[-1].next_offset


class CompactionStage(Enum):
    """The stages of a pass. The last three are those of its present group."""

    IDLE = 0
    CLEANING = 1
    ANNOUNCING = 2
    """COPY_SEGMENT_STARTED is appended."""
    COPYING = 3
    FINISHING = 4
    """The replacement is appended: its outcome is open until it is committed or refused."""


MOST_JOINED: Final = 200
"""The segments that one replaces at most: their records are in one batch."""


class StoreCompaction:
    """The passes of one leader in one epoch, one after the other."""

    def __init__(self, topic_id: bytes, topic: str, partition: int, settings: CopySettings) -> None:
        self._name = (topic_id, topic, partition)
        self._settings = settings
        self.stage = CompactionStage.IDLE
        self.failures = 0
        """The passes that failed since the last one that did not."""
        self.last_error = ""
        self._retry_at_ms = 0
        self._group: CleanedGroup | None = None
        self._segment: RemoteLogSegment | None = None
        self._deadline_ms = 0

    def may_begin(self, now_ms: int) -> bool:
        """Whether no pass is under way, and the pause after a failure is over."""
        return self.stage is CompactionStage.IDLE and now_ms >= self._retry_at_ms

    def begin(self) -> list[Effect]:
        """Begin a pass."""
        self.stage = CompactionStage.CLEANING
        return [CleanNext()]

    def cleaned(self, group: CleanedGroup, segment_id: bytes, now_ms: int, wall_ms: int) -> list[Effect]:
        """A group was cleaned. ``segment_id`` has never been used."""
        if self.stage is not CompactionStage.CLEANING:
            return []
        self._group = group
        self._segment = RemoteLogSegment(
            RemoteLogSegmentId(*self._name, segment_id),
            group.start,
            group.next_offset - 1,
            self._settings.broker_id,
            group.max_timestamp_ms,
            wall_ms,
            epochs_of(group.parts),
            group.size_bytes,
            None,
            STARTED,
            group.is_transaction_index_empty,
        )
        self._deadline_ms = now_ms + self._settings.deadline_ms
        self.stage = CompactionStage.ANNOUNCING
        return [AppendRecord(self._segment)]

    def announced(self, segment_id: bytes) -> list[Effect]:
        """COPY_SEGMENT_STARTED of the present group is committed."""
        segment, group = self._of(segment_id), self._group
        if segment is None or group is None or self.stage is not CompactionStage.ANNOUNCING:
            return []
        self.stage = CompactionStage.COPYING
        return [CopyCleaned(segment, group.parts, self._deadline_ms)]

    def objects_written(
        self, segment_id: bytes, custom: bytes | None, segments: RemoteSegments, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """The objects of the present group's segment are complete and durable. ``custom`` are its custom metadata."""
        segment, group = self._of(segment_id), self._group
        if segment is None or group is None or self.stage is not CompactionStage.COPYING:
            return []
        fields = custom_metadata.decode(custom)._replace(compacted_until=group.compacted_until)
        encoded = custom_metadata.encode(fields)
        if len(encoded) > self._settings.max_custom_metadata_bytes:
            return self._fail(f"the custom metadata have {len(encoded)} bytes, and may not", now_ms, wall_ms)
        self.stage = CompactionStage.FINISHING
        broker_id = self._settings.broker_id
        new = segment._replace(custom_metadata=encoded).update(FINISHED, broker_id, wall_ms)
        old = [each.update(DELETING, broker_id, wall_ms) for each in replaced_by(segment, group.parts, segments)]
        return [AppendTogether((new, *old))]

    def replaced(self, segment_id: bytes) -> list[Effect]:
        """The replacement is committed."""
        if self._of(segment_id) is None or self.stage is not CompactionStage.FINISHING:
            return []
        self._group = self._segment = None
        self.stage = CompactionStage.CLEANING
        return [CleanNext()]

    def ended(self) -> list[Effect]:
        """No group is left: the pass is complete."""
        if self.stage is not CompactionStage.CLEANING:
            return []
        self.stage = CompactionStage.IDLE
        self.failures, self.last_error = 0, ""
        return [EndPass()]

    def failed(self, segment_id: bytes | None, reason: str, now_ms: int, wall_ms: int) -> list[Effect]:
        """A step failed, of the group with this segment or before it had one: the pass is over, and what was written of
        the present group is to be deleted. Groups that were replaced stay so."""
        present = None if self._segment is None else self._segment.id.segment_id
        if self.stage is CompactionStage.IDLE or segment_id != present:
            return []
        return self._fail(reason, now_ms, wall_ms)

    def due(self, now_ms: int, wall_ms: int) -> list[Effect]:
        """Give up a group whose objects are not written in time."""
        if self.stage is not CompactionStage.COPYING or now_ms < self._deadline_ms or self._segment is None:
            return []
        stop = StopCopying(self._segment.id.segment_id)
        return [stop, *self._fail(f"not complete after {self._settings.deadline_ms} ms", now_ms, wall_ms)]

    def stop(self) -> list[Effect]:
        """This node leads no more: the next leader cleans up."""
        stage, segment = self.stage, self._segment
        self.stage, self._group, self._segment = CompactionStage.IDLE, None, None
        stops = [] if segment is None else [StopCopying(segment.id.segment_id)]
        return [] if stage is CompactionStage.IDLE else [*stops, EndPass()]

    def _of(self, segment_id: bytes) -> RemoteLogSegment | None:
        return self._segment if self._segment is not None and self._segment.id.segment_id == segment_id else None

    def _fail(self, reason: str, now_ms: int, wall_ms: int) -> list[Effect]:
        segment, stage = self._segment, self.stage
        self.stage, self._group, self._segment = CompactionStage.IDLE, None, None
        self.failures += 1
        self.last_error = reason
        pause_ms = self._settings.retry_ms << min(self.failures - 1, 30)
        self._retry_at_ms = now_ms + min(pause_ms, self._settings.max_retry_ms)
        if segment is None or stage is CompactionStage.ANNOUNCING:
            return [EndPass()]  # no record, so no objects
        return [AppendRecord(segment.update(DELETING, self._settings.broker_id, wall_ms)), EndPass()]


def replaced_by(new: RemoteLogSegment, parts: Iterable[StoredPart], segments: RemoteSegments) -> list[RemoteLogSegment]:
    """The segments that nobody reads any more once a new one can be read: those it was made of, and copies of the same
    offsets that had lost their place to others before."""
    found = {each.segment.id.segment_id: each.segment for each in parts}
    epoch, first = new.leader_epochs[0]
    around_start = segments.find(epoch, first - 1)  # its beginning is below the log start by now
    superseded = (each for epoch, _ in new.leader_epochs for each in segments.superseded(epoch))
    for each in superseded if around_start is None else (around_start, *superseded):
        if _is_part_of(new, each):
            found.setdefault(each.id.segment_id, each)
    return list(found.values())


def _is_part_of(whole: RemoteLogSegment, each: RemoteLogSegment) -> bool:
    """Whether a copy has no offset, and no record of another history, that the whole one does not have. Where the first
    epoch of one begins later than it, that was the log start: nothing below is read any more."""
    first = whole.leader_epochs[0][1]
    begin = max(each.start_offset, each.leader_epochs[0][1], first if first > whole.start_offset else 0)
    is_within = whole.start_offset <= begin <= each.end_offset <= whole.end_offset
    return is_within and _epochs_within(whole, begin, each.next_offset) == _epochs_within(each, begin, each.next_offset)


def _epochs_within(segment: RemoteLogSegment, begin: int, end: int) -> list[tuple[int, int]]:
    return [
        (epoch, max(start, begin))
        for epoch, start in segment.leader_epochs
        if segment.epoch_end(epoch) > begin and start < end
    ]
