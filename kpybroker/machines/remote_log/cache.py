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

from kpybroker.machines.remote_log.packing import (
    is_transaction_index_empty,
    packed,
    parts_of,
    size_of,
    start_of,
    state_of,
    unpacked,
    updated,
)
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
        if not starts or (start > starts[-1] and end > ends[-1]):
            starts.append(start)
            ends.append(end)
            ids.append(segment_id)
            self.unreferenced.discard(segment_id)
            return
        before = bisect_right(starts, start)
        if before and (ends[before - 1] > end or (ends[before - 1] == end and starts[before - 1] < start)):
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

    __slots__ = (
        "_epochs",
        "_rows",
        "_with_transactions",
        "all_bytes",
        "deletions",
        "partition",
        "topic",
        "topic_id",
        "unfinished",
    )

    def __init__(self, topic_id: bytes, topic: str, partition: int) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partition = partition
        self._rows: dict[bytes, bytes] = {}
        self._epochs: dict[int, EpochSegments] = {}
        self._with_transactions = 0
        """The number of segments that may have aborted transactions."""
        self.all_bytes = 0
        """The bytes of all segments, in every state but the last."""
        self.deletions = 0
        """The number of deletions that have begun: if it has changed, others may be read in the place of segments."""
        self.unfinished = 0
        """The number of copies that began and have neither ended nor been given up."""

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
        if verdict is RecordVerdict.APPLIES:
            if isinstance(record, RemoteLogSegment):
                self._begin(record)
            else:
                self._change(record)
        return verdict

    def _begin(self, segment: RemoteLogSegment) -> None:
        name = segment.id.segment_id
        before = self._rows.get(name)
        for epoch, _, _ in () if before is None else parts_of(before):
            self._epochs[epoch].unreferenced.discard(name)
        for epoch, _ in segment.leader_epochs:
            of_epoch = self._epochs.get(epoch)
            if of_epoch is None:
                of_epoch = self._epochs[epoch] = EpochSegments()
            of_epoch.unreferenced.add(name)
        if before is None:
            self.unfinished += 1
        else:
            self._count(before, -1)
        self._rows[name] = row = packed(segment)
        self._count(row, 1)

    def _count(self, row: bytes, by: int) -> None:
        """Add a segment to the sums over all, or take it out."""
        self.all_bytes += by * size_of(row)
        self._with_transactions += by * (not is_transaction_index_empty(row))

    def _change(self, update: RemoteLogSegmentUpdate) -> None:
        name, state = update.id.segment_id, update.state
        row = self._rows[name]
        for epoch, start, end in parts_of(row):
            of_epoch = self._epochs[epoch]
            if state is FINISHED:
                of_epoch.finish(start, end, name)
            elif state is DELETED:
                of_epoch.unreferenced.discard(name)
            else:
                of_epoch.hide(start, name)
        if state_of(row) is STARTED and state is not STARTED:
            self.unfinished -= 1
        if state is DELETED:
            self._count(row, -1)
            del self._rows[name]
        else:
            self._rows[name] = updated(row, update)
        if state is DELETING:
            self.deletions += 1
            self._read_again(row)

    def _read_again(self, deleted: bytes) -> None:
        """Copies that lay within one that is deleted now are read in its place."""
        for epoch, _, _ in parts_of(deleted):
            of_epoch = self._epochs[epoch]
            for name in sorted(of_epoch.unreferenced):
                row = self._rows[name]
                if state_of(row) is FINISHED:
                    start, end = next(part[1:] for part in parts_of(row) if part[0] == epoch)
                    of_epoch.finish(start, end, name)

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
        segment = self.find(epoch, offset) if self._with_transactions else None
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
        """All segments, in every state but the last. One that is deleted while they are read is left out."""
        for name in list(self._rows):
            row = self._rows.get(name)
            if row is not None:
                yield unpacked(row, self._id(name))

    def in_epoch(self, epoch: int) -> Iterator[RemoteLogSegment]:
        """The segments with records of an epoch, by start offset, in every state but the last. One that is deleted
        while they are read is left out."""
        of_epoch = self._epochs.get(epoch)
        names = [] if of_epoch is None else of_epoch.listed()
        for _, name in sorted([(start_of(self._rows[name]), name) for name in names]):
            row = self._rows.get(name)
            if row is not None:
                yield unpacked(row, self._id(name))

    def superseded(self, epoch: int) -> Iterator[RemoteLogSegment]:
        """The complete copies with records of an epoch whose place others have taken."""
        of_epoch = self._epochs.get(epoch)
        for name in sorted(of_epoch.unreferenced) if of_epoch is not None else ():
            if state_of(self._rows[name]) is FINISHED:
                yield unpacked(self._rows[name], self._id(name))

    def of_epoch(self, epoch: int) -> list[RemoteLogSegment]:
        """The same segments, all at once."""
        return list(self.in_epoch(epoch))

    def size_bytes(self, epoch: int) -> int:
        """The bytes of the segments with records of an epoch (``remoteLogSize``)."""
        return sum(each.size_bytes for each in self.in_epoch(epoch))

    def copied_epochs(self) -> list[int]:
        """The epochs of which anything was ever copied, ascending."""
        return sorted(epoch for epoch, of_epoch in self._epochs.items() if of_epoch.highest_offset != NO_OFFSET)

    def epochs(self) -> list[int]:
        """The epochs of which segments are listed, ascending."""
        return sorted(epoch for epoch, of_epoch in self._epochs.items() if of_epoch.listed())

    def _id(self, segment_id: bytes) -> RemoteLogSegmentId:
        return RemoteLogSegmentId(self.topic_id, self.topic, self.partition, segment_id)


def _by_end(segment: RemoteLogSegment) -> tuple[int, bytes]:
    return -segment.end_offset, segment.id.segment_id
