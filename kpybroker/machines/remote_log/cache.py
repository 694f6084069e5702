"""The segments of one partition in a store, by epoch and offset (Kafka: ``RemoteLogMetadataCache``,
``RemoteLogLeaderEpochState``).

Two leaders may have copied the same offsets. Then the later copy that reaches as far or further is read, and the other
is only listed, until it expires.

Deviation from Kafka: a copy that lies within another one is listed, but never takes its place. In Kafka the later one
is read where it begins, so offsets at its end, which the disk may have lost by now, are not found; and a copy with the
same start as a later, shorter one is never listed by epoch again, so it is not deleted while the topic exists.

Invariant: every segment that is not DELETE_SEGMENT_FINISHED is in ``_rows``, and is listed in each of its epochs once.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import Enum
from typing import Final

from kpybroker.machines.remote_log.packing import packed, state_of, unpacked
from kpybroker.machines.remote_log.segments import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    may_follow,
)

NO_OFFSET: Final = -1


class RecordVerdict(Enum):
    """Whether a record changes the cache, or why not."""

    APPLIES = "applies"
    ILLEGAL_TRANSITION = "its state cannot follow the present one"
    UNKNOWN_SEGMENT = "no segment has its id"
    """Kafka: ``RemoteResourceNotFoundException``; while a log is replayed, such an update is dropped."""
    NOT_A_BEGINNING = "a new segment begins with COPY_SEGMENT_STARTED"
    NOT_AN_UPDATE = "COPY_SEGMENT_STARTED is not the state of an update"


class EpochSegments:
    """The segments of one epoch. ``unreferenced`` are those that are listed and cannot be read.

    Invariant: starts and ends of those that can be read ascend strictly.
    """

    __slots__ = ("_ends", "_ids", "_starts", "highest_offset", "unreferenced")

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._ids: list[bytes] = []
        self.unreferenced: set[bytes] = set()
        self.highest_offset = NO_OFFSET
        """The highest offset that was ever copied, also where its segment is deleted by now."""

    def finish(self, start: int, end: int, segment_id: bytes) -> None:
        """A copy is complete: its records of this epoch are from ``start`` to ``end``, inclusive."""
        starts, ends, ids = self._starts, self._ends, self._ids
        self.highest_offset = max(self.highest_offset, end)
        before = bisect_right(starts, start)
        if before and ends[before - 1] > end:
            if ids[before - 1] != segment_id:
                self.unreferenced.add(segment_id)
            return
        first, after = bisect_left(starts, start), bisect_right(ends, end)
        after = max(after, first)
        self.unreferenced.update(ids[first:after])
        starts[first:after] = array("q", (start,))
        ends[first:after] = array("q", (end,))
        ids[first:after] = [segment_id]
        self.unreferenced.discard(segment_id)

    def hide(self, start: int, segment_id: bytes) -> None:
        """A deletion began: the segment is only listed."""
        at = bisect_left(self._starts, start)
        if at < len(self._ids) and self._starts[at] == start and self._ids[at] == segment_id:
            del self._starts[at], self._ends[at], self._ids[at]
        self.unreferenced.add(segment_id)

    def floor(self, offset: int) -> bytes | None:
        """The readable segment with the greatest start up to ``offset``."""
        following = bisect_right(self._starts, offset)
        return self._ids[following - 1] if following else None

    def listed(self) -> list[bytes]:
        """All segments of the epoch."""
        return [*self._ids, *self.unreferenced]


class RemoteSegments:
    """The segments of one partition. Records are applied in the order of the log."""

    __slots__ = ("_epochs", "_rows", "partition", "topic", "topic_id")

    def __init__(self, topic_id: bytes, topic: str, partition: int) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partition = partition
        self._rows: dict[bytes, bytes] = {}
        self._epochs: dict[int, EpochSegments] = {}

    def __len__(self) -> int:
        return len(self._rows)

    # Records

    def verdict(self, record: RemoteLogSegment | RemoteLogSegmentUpdate) -> RecordVerdict:
        """Whether a record would change the cache."""
        before, after = self.state(record.id.segment_id), record.state
        if type(record) is RemoteLogSegment:
            if after is not STARTED:
                return RecordVerdict.NOT_A_BEGINNING
        elif before is None:
            return RecordVerdict.UNKNOWN_SEGMENT
        elif may_follow(before, after) and after is STARTED:
            return RecordVerdict.NOT_AN_UPDATE
        return RecordVerdict.APPLIES if may_follow(before, after) else RecordVerdict.ILLEGAL_TRANSITION

    def apply(self, record: RemoteLogSegment | RemoteLogSegmentUpdate) -> RecordVerdict:
        """Apply a record of the log; one that does not apply changes nothing."""
        verdict = self.verdict(record)
        if verdict is not RecordVerdict.APPLIES:
            return verdict
        if isinstance(record, RemoteLogSegment):
            self._begin(record)
        else:
            segment = unpacked(self._rows[record.id.segment_id], record.id).with_update(record)
            self._change(segment)
        return verdict

    def _begin(self, segment: RemoteLogSegment) -> None:
        name = segment.id.segment_id
        before = self.get(name)
        for epoch, _ in () if before is None else before.leader_epochs:
            self._epochs[epoch].unreferenced.discard(name)
        for epoch, _ in segment.leader_epochs:
            self._epochs.setdefault(epoch, EpochSegments()).unreferenced.add(name)
        self._rows[name] = packed(segment)

    def _change(self, segment: RemoteLogSegment) -> None:
        name, state = segment.id.segment_id, segment.state
        for epoch, start in segment.leader_epochs:
            of_epoch = self._epochs.setdefault(epoch, EpochSegments())
            if state is FINISHED:
                of_epoch.finish(start, segment.epoch_end(epoch) - 1, name)
            elif state is DELETED:
                of_epoch.unreferenced.discard(name)
            else:
                of_epoch.hide(start, name)
        if state is DELETED:
            del self._rows[name]
        else:
            self._rows[name] = packed(segment)
        if state is DELETING:
            self._read_again(segment)

    def _read_again(self, deleted: RemoteLogSegment) -> None:
        """SegmentCopies that lay within one that is deleted now are read in its place."""
        for epoch, _ in deleted.leader_epochs:
            of_epoch = self._epochs[epoch]
            for name in sorted(of_epoch.unreferenced):
                row = self._rows[name]
                if state_of(row) is FINISHED:
                    segment = unpacked(row, self._id(name))
                    of_epoch.finish(segment.epoch_start(epoch), segment.epoch_end(epoch) - 1, name)

    # Questions

    def state(self, segment_id: bytes) -> RemoteLogSegmentState | None:
        """The state of a segment, None for an unknown or deleted one."""
        row = self._rows.get(segment_id)
        return None if row is None else state_of(row)

    def get(self, segment_id: bytes) -> RemoteLogSegment | None:
        """The segment with an id."""
        row = self._rows.get(segment_id)
        return None if row is None else unpacked(row, self._id(segment_id))

    def find(self, epoch: int, offset: int) -> RemoteLogSegment | None:
        """The segment to read ``offset`` from, where its record has ``epoch`` (``remoteLogSegmentMetadata``)."""
        of_epoch = self._epochs.get(epoch)
        name = None if of_epoch is None else of_epoch.floor(offset)
        if name is None:
            return None
        segment = unpacked(self._rows[name], self._id(name))
        return segment if offset < segment.epoch_end(epoch) else None

    def next_with_transaction_index(self, epoch: int, offset: int) -> RemoteLogSegment | None:
        """The first segment from ``offset`` on that may have aborted transactions (KIP-1058)."""
        segment = self.find(epoch, offset)
        while segment is not None and segment.is_transaction_index_empty:
            segment = self.find(epoch, segment.next_offset)
        return segment

    def highest_offset(self, epoch: int) -> int:
        """The highest offset that was ever copied in an epoch, -1 if there is none (``highestOffsetForEpoch``)."""
        of_epoch = self._epochs.get(epoch)
        return NO_OFFSET if of_epoch is None else of_epoch.highest_offset

    def with_offset(self, epoch: int, offset: int) -> list[RemoteLogSegment]:
        """All readable copies that have the record at ``offset`` with ``epoch``, the longest first."""
        found = [
            each
            for each in self.of_epoch(epoch)
            if each.state is FINISHED and each.epoch_start(epoch) <= offset < each.epoch_end(epoch)
        ]
        return sorted(found, key=_by_end)

    def all(self) -> Iterator[RemoteLogSegment]:
        """All segments, in every state but the last."""
        for name, row in self._rows.items():
            yield unpacked(row, self._id(name))

    def of_epoch(self, epoch: int) -> list[RemoteLogSegment]:
        """The segments with records of an epoch, by start offset, in every state but the last."""
        of_epoch = self._epochs.get(epoch)
        names = [] if of_epoch is None else of_epoch.listed()
        return sorted((unpacked(self._rows[name], self._id(name)) for name in names), key=_by_start)

    def copied_epochs(self) -> list[int]:
        """The epochs of which anything was ever copied, ascending."""
        return sorted(epoch for epoch, of_epoch in self._epochs.items() if of_epoch.highest_offset != NO_OFFSET)

    def size_bytes(self, epoch: int) -> int:
        """The bytes of the segments with records of an epoch (``remoteLogSize``)."""
        return sum(each.size_bytes for each in self.of_epoch(epoch))

    def epochs(self) -> list[int]:
        """The epochs of which segments are listed, ascending."""
        return sorted(epoch for epoch, of_epoch in self._epochs.items() if of_epoch.listed())

    def _id(self, segment_id: bytes) -> RemoteLogSegmentId:
        return RemoteLogSegmentId(self.topic_id, self.topic, self.partition, segment_id)


def _by_start(segment: RemoteLogSegment) -> tuple[int, bytes]:
    return segment.start_offset, segment.id.segment_id


def _by_end(segment: RemoteLogSegment) -> tuple[int, bytes]:
    return -segment.end_offset, segment.id.segment_id
