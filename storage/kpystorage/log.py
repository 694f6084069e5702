"""One partition's log on one disk: append, read, look up, roll, truncate (Kafka's UnifiedLog and LocalLog).

Not here: who may append and up to where readers may see (the partition's role object), when things are flushed,
deleted and checkpointed (the broker), how a log is brought up after a start (:mod:`kpystorage.recovery`).

A ``Log`` begins unopened and costs nothing then. To use more than its name and configuration, it has to be opened. It
belongs to one thread; other threads may use a :class:`LogSlice` and a :class:`Flush`.

Invariants: ``end`` is where the next batch goes, in the active segment, and everything before it is in the files.
Offsets ascend. ``log_start_offset <= local_log_start_offset <= end.offset``. After an error no half write is visible.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self

from kpystorage import cutting, lookups, names
from kpystorage.boundaries import Boundaries
from kpystorage.control_batches import apply_producer, note_ended
from kpystorage.errors import OffsetOutOfRange, RecordBatchTooLarge, UnexpectedAppendOffset
from kpystorage.flush import Flush, Unflushed, begin_flush, flush_at_once, take_back, unwritten_epochs
from kpystorage.leader_epochs import Epochs, LeaderEpochs
from kpystorage.log_config import LogConfig
from kpystorage.log_folder import LogFolder
from kpystorage.log_offset import LogOffset
from kpystorage.log_slice import LogSlice
from kpystorage.lookups import EXACT, OffsetForTimestamp, Search
from kpystorage.producer_states import EndedTransaction, ProducerStates
from kpystorage.recovery import LoadedLog
from kpystorage.retention import expendable
from kpystorage.segment import Segment
from kpystorage.set_aside import set_aside_oldest
from kpystorage.snapshot_files import SnapshotFiles
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire.batch import CONTROL_MASK, LENGTH_END, NO_PRODUCER_ID, BatchHeader
from kpywire.errors import Malformed
from kpywire.varint import Buffer

if TYPE_CHECKING:
    from kpystorage.directory import LogDirectory

_ALL_MESSAGES: Final = 1 << 61
"""More than a log holds. Compiled code compares it without an object, which it does not with Kafka's default."""
_WARM_TAIL_BYTES: Final = 64 << 20
"""Bytes at the end of the active segment that are assumed to be in the page cache."""
_SNAPSHOT_INTERVAL_BYTES: Final = 16 << 20


class Log:
    """The log of one partition."""

    __slots__ = (
        "_boundaries", "_complete_end", "_ended", "_flush_messages", "_unsnapshotted_bytes", "active", "base_offsets",
        "config", "directory", "end", "epochs", "flushing", "folder", "is_being_cleaned", "log_start_offset",
        "need_files", "partition", "producers", "recovery_point", "segments", "snapshots", "stop_compacting", "topic",
        "topic_id", "unflushed", "unflushed_bytes",
    )  # fmt: skip

    topic_id: bytes | None
    """The topic id; None if it was not passed: ``directory.read_topic_id`` finds it."""
    active: Segment
    """The segment that is written to, the last of ``segments``."""
    base_offsets: list[int]
    """The base offsets of ``segments``."""
    end: LogOffset
    """The place of the next batch."""
    epochs: LeaderEpochs
    log_start_offset: int
    """The first offset that may be read: the start that clients see. See `local_log_start_offset`."""
    need_files: Callable[[], object] | None
    """Asks for the files of a log that has none yet (`kpystorage.unmade`)."""
    producers: ProducerStates
    recovery_point: int
    """The recovery point: everything below it is known to be durable."""
    segments: list[Segment]
    """The segments, ascending, at least one. Empty while the log is not open; then of these attributes only the id is
    valid."""
    snapshots: SnapshotFiles
    """The producer snapshots on disk."""
    stop_compacting: Callable[[], object] | None
    """A callable while the log is compacted. It has to be called before the log is cut, moved or closed."""
    unflushed_bytes: int
    """Bytes appended since the beginning of the last finished flush."""

    def __init__(
        self, directory: "LogDirectory", topic: str, partition: int, topic_id: bytes | None, config: LogConfig
    ) -> None:
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        path = f"{directory.path}/{names.partition_directory(topic, partition)}"
        self.folder = LogFolder(directory.disk, path)
        self.segments = []
        self.flushing: Flush | None = None
        self.is_being_cleaned = False  # by a process or thread that makes files in the directory
        self.configure(config)
        self.stop_compacting = self.need_files = None

    @property
    def name(self) -> str:
        """``topic-partition``."""
        return f"{self.topic}-{self.partition}"

    @property
    def path(self) -> str:
        """The path of the log's directory."""
        return self.folder.path

    # Opening and closing.

    @property
    def is_open(self) -> bool:
        return bool(self.segments)

    def open(self) -> Self:
        """Read the files, if that has not happened yet. DiskFailure (CorruptLog if only this log is broken)."""
        if not self.is_open:
            self.directory.load(self)
        return self

    def adopt(self, loaded: LoadedLog) -> None:
        """Take over the result of loading or creating. The log is open then."""
        segments = loaded.segments
        self.base_offsets = [segment.base_offset for segment in segments]
        self._boundaries = Boundaries()
        self._ended: list[EndedTransaction] = []
        # A process that wrote it and did not stop cleanly may have died before its names were durable, or gone.
        self.unflushed = Unflushed(loaded.new_files, new_directory=loaded.new_directory or not loaded.is_complete)
        self.active = segments[-1]
        self.active.jitter_ms = self.directory.draw_jitter_ms(self.config)
        self.end = LogOffset(loaded.end_offset, self.active.base_offset, self.active.size)
        self.log_start_offset = loaded.log_start_offset
        is_sure_of_names = loaded.is_complete or loaded.new_directory
        self.unflushed.removed_files = self.local_log_start_offset > 0 and not is_sure_of_names
        self.recovery_point = loaded.recovery_point
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.snapshots = loaded.snapshots
        if not loaded.is_complete:  # a process that died has flushed its last ones, perhaps
            self.snapshots.unflushed = [*self.snapshots.offsets]
        self._unsnapshotted_bytes = 0
        self.unflushed_bytes = 0
        for segment, following in pairwise(segments):
            if following.base_offset > loaded.recovery_point:
                self.unflushed.sealed.append(segment)
                self.unflushed_bytes += segment.size
        self._complete_end = loaded.end_offset if loaded.is_complete else -1
        if loaded.recovery_point < loaded.end_offset:
            self.unflushed_bytes += self.active.size
        self.segments = segments

    def distrust_cache(self) -> None:
        """Note that another process wrote the unflushed bytes, so that it is not known whether the disk has them
        all."""
        for segment in dict.fromkeys((*self.unflushed.sealed, self.active)):
            segment.distrust()

    def configure(self, config: LogConfig) -> None:
        """Use another configuration from now on."""
        self.config = config
        self._flush_messages = min(config.flush_messages, _ALL_MESSAGES)
        if self.is_open:
            self.active.configure(config)
            if not config.is_tiered:  # what a store has is no part of the log any more (KIP-950)
                self.advance_log_start(self.base_offsets[0])

    def close(self) -> None:
        """Complete the files of an open log as at a clean stop of Kafka: indexes, snapshot, epochs. Flush it after."""
        if self.is_open:
            with self.directory.failing():
                self.active.seal()
                self.active.trim()
                self.take_snapshot()
                self.write_epochs()
                if self.end.offset != self._complete_end:
                    self.unflushed.sealed.append(self.active)

    def abandon(self) -> None:
        """Give the files up as they are. The log is unopened again."""
        self.end_compaction()
        if self.is_open:
            for segment in self.segments:
                segment.release()
            self.segments = []

    def end_compaction(self) -> None:
        """End the compaction of the log, if there is one: segments that are not swapped in yet never will be."""
        if self.stop_compacting is not None:
            self.stop_compacting()
            self.stop_compacting = None

    @property
    def local_log_start_offset(self) -> int:
        """The first readable offset on this disk. That is the log start, unless a store has what lies between."""
        return max(self.log_start_offset, self.base_offsets[0])

    # Appending.

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        return self.end.offset

    def append(self, headers: Sequence[BatchHeader], data: Buffer, now_ms: int) -> None:
        """Write batches that lie back to back in ``data``, stamped with offsets and epochs; ``headers`` are theirs.

        Raises:
            DiskFailure: the directory is offline, or goes offline now; nothing of the batches stays visible.
            UnexpectedAppendOffset: they begin below the log end.
            RecordBatchTooLarge: they are larger than a segment.
            Malformed: a transaction marker among them is not readable.
        """
        directory = self.directory
        if directory.failure is not None:
            raise directory.offline()
        first = last = headers[0]
        max_timestamp = first.max_timestamp
        if len(headers) > 1:
            last = headers[-1]
            max_timestamp = max([header.max_timestamp for header in headers])
        base_offset = first.base_offset
        end = self.end
        if base_offset < end.offset:
            below = f"{self.name}: offset {base_offset} is below the log end {end.offset}"
            raise UnexpectedAppendOffset(below, base_offset)
        size = len(data)
        last_offset = last.base_offset + last.last_offset_delta
        segment = self.active
        try:
            if segment.must_roll(size, max_timestamp, last_offset, now_ms):
                if size > self.config.segment_bytes:
                    raise RecordBatchTooLarge(f"{size} bytes at once are more than a segment of {self.name} holds")
                # Behind a gap too it begins at the log end, if it can: between segments a gap is taken for a loss.
                segment = self.roll(now_ms, end.offset if last_offset - end.offset < 1 << 31 else base_offset)
            position = segment.append(headers, data)
            epochs = self.epochs
            for header in headers:
                epoch = header.partition_leader_epoch
                if epoch != epochs.latest and epoch >= 0:
                    epochs.assign(epoch, header.base_offset)
                if header.producer_id != NO_PRODUCER_ID:
                    self._apply_producer(header, segment, position, data)
                position += header.batch_length + LENGTH_END
            if self._ended:
                self._complete_transactions(segment)
        except OSError as error:
            self._take_back(segment, end)
            raise directory.fail(error) from error
        except Malformed:
            self._take_back(segment, end)
            segment.rebuild_indexes()
            raise
        self.producers.end_offset = last_offset + 1
        self.end = LogOffset(last_offset + 1, segment.base_offset, position)
        self.unflushed_bytes += size
        self._unsnapshotted_bytes += size
        if last_offset - self.recovery_point >= self._flush_messages - 1:
            self.flush()

    def append_batch(self, data: Buffer, max_timestamp: int, next_offset: int, epoch: int, now_ms: int) -> bool:
        """:meth:`append` of one batch at the log end, without a producer, which leaders do all the time.

        False, and nothing is done, where more than a write is needed.
        """
        segment, size = self.active, len(data)
        if self.directory.failure is not None or epoch != self.epochs.latest:
            return False
        try:
            position = segment.append_batch(data, size, max_timestamp, next_offset - 1, now_ms)
        except OSError as error:
            self._take_back(segment, self.end)
            raise self.directory.fail(error) from error
        if position < 0:
            return False
        self.producers.end_offset = next_offset
        self.end = LogOffset(next_offset, segment.base_offset, position + size)
        self.unflushed_bytes += size
        self._unsnapshotted_bytes += size
        if next_offset - self.recovery_point >= self._flush_messages:
            self.flush()
        return True

    def _apply_producer(self, header: BatchHeader, segment: Segment, position: int, data: Buffer) -> None:
        place = LogOffset(header.base_offset, segment.base_offset, position)
        if not header.attributes & CONTROL_MASK:
            self.producers.apply(header, place)
            return
        start = position - (segment.size - len(data))
        ended = apply_producer(self.producers, header, data, start, place)
        if ended is not None:
            self._ended.append(ended)

    def _complete_transactions(self, segment: Segment) -> None:
        """Note the transactions that an append ended, once all of its batches have been applied."""
        ended, self._ended = self._ended, []
        for transaction in ended:
            if segment.transaction_index.file is None and not transaction.committed:
                self.unflushed.new_files.append(segment.transaction_index.path)
            note_ended(self.producers, transaction, segment.transaction_index)

    def _take_back(self, segment: Segment, end: LogOffset) -> None:
        """Undo a failed write: cut off the part of it that is in the file. The directory goes offline, whether or not
        this works."""
        with suppress(OSError):
            segment.cut(end.position if segment.base_offset == end.segment_base_offset else 0)

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Begin a new segment at the log end (or at ``base_offset`` beyond it) and complete the files of the last one.

        An active segment that is still empty and starts there already is kept. A snapshot of the producers is written.
        The last segment is to be flushed soon: the directory notes it.
        OSError is the caller's to answer with ``directory.fail``.
        """
        base_offset = self.end.offset if base_offset is None else base_offset
        if base_offset == self.active.base_offset and self.active.size == 0:
            return self.active
        self.active.seal()
        self.active.trim()
        segment = Segment.create(self.directory.disk, self.path, base_offset, now_ms, self.config)
        segment.jitter_ms = self.directory.draw_jitter_ms(self.config)
        self.unflushed.sealed.append(self.active)
        self.unflushed.new_files.append(segment.log.path)
        self.directory.rolled[self] = None
        self.segments.append(segment)
        self.base_offsets.append(base_offset)
        self._boundaries.clear()
        self.active = segment
        self.end = LogOffset(self.end.offset, base_offset, 0)
        self.producers.end_offset = base_offset
        self.take_snapshot()
        return segment

    # Reading.

    def read(self, offset: int, max_bytes: int, end: LogOffset, *, min_one_batch: bool) -> LogSlice | None:
        """Read from the batch that holds ``offset`` on, at most ``max_bytes``, nothing at or beyond ``end``.

        With ``min_one_batch`` the first batch is returned whole whatever its size. Without it the result is None if the
        first batch does not fit, as for an ``offset`` at or beyond ``end``. A later batch may be cut off at the slice's
        end.

        Raises:
            OffsetOutOfRange: ``offset`` is below the log start or above the log end.
            DiskFailure: the directory is offline, or goes offline now.
        """
        position = self._boundaries.get(offset)
        if position is not None and end.segment_base_offset == self.active.base_offset:
            length = end.position - position
            if 0 < length <= max_bytes and self.directory.failure is None:
                self._boundaries.remember(end.offset, end.position)
                try:
                    return LogSlice(self.active.log.descriptor(), position, length)
                except OSError as error:
                    raise self.directory.fail(error) from error
        return self._find_slice(offset, max_bytes, end, min_one_batch=min_one_batch)

    def _find_slice(self, offset: int, max_bytes: int, end: LogOffset, *, min_one_batch: bool) -> LogSlice | None:
        if self.directory.failure is not None:
            raise self.directory.offline()
        # `local_log_start_offset`, written out.
        if offset < self.log_start_offset or offset < self.base_offsets[0] or offset > self.end.offset:
            raise self._out_of_range(offset)
        with self.directory.failing():
            if end.position < 0:
                end = self.position_of(end.offset)
            if end.segment_base_offset == self.active.base_offset:
                self._boundaries.remember(end.offset, end.position)
            if offset >= end.offset:
                return None
            found = self._find(offset, end)
            if found is None or found[0].base_offset > offset:
                segment = self.segments[bisect_right(self.base_offsets, offset) - 1]
                segment.refuse_broken(offset, end.position if segment is self.active else segment.size)
            if found is None:
                return None
            segment, position, header = found
            limit = end.position if segment.base_offset == end.segment_base_offset else segment.size
            if header.size > max_bytes and not min_one_batch:
                return None
            if segment is self.active:
                self._boundaries.remember(offset, position)
            length = min(limit - position, max(max_bytes, header.size))
            cold = segment is not self.active or segment.size - position > _WARM_TAIL_BYTES
            return segment.slice(position, length, self.directory.report, cold=cold)

    def _find(self, offset: int, end: LogOffset) -> tuple[Segment, int, BatchHeader] | None:
        """The first batch below ``end`` that reaches ``offset`` or beyond."""
        for number in range(bisect_right(self.base_offsets, offset) - 1, len(self.segments)):
            segment = self.segments[number]
            if segment.base_offset > end.segment_base_offset:
                return None
            limit = end.position if segment.base_offset == end.segment_base_offset else segment.size
            found = segment.find(offset, limit)
            if found is not None:
                return segment, *found
        return None

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        start, end = self.local_log_start_offset, self.end.offset
        return OffsetOutOfRange(f"offset {offset} of {self.name} is not in {start} to {end}")

    def position_of(self, offset: int) -> LogOffset:
        """The position of the batch that holds ``offset``; the log end for offsets that no batch reaches.

        Raises:
            OffsetOutOfRange: ``offset`` is below the local log start or above the log end.
        """
        end = self.end
        if offset == end.offset:
            return end
        if offset < self.log_start_offset or offset < self.base_offsets[0] or offset > end.offset:
            raise self._out_of_range(offset)
        with self.directory.failing():
            found = self._find(offset, end)
        return end if found is None else LogOffset(offset, found[0].base_offset, found[1])

    def offset_for_timestamp(self, timestamp: int, search: Search = EXACT) -> OffsetForTimestamp | None:
        """The first record from the local log start on that is not older than ``timestamp``; None if all are older."""
        most, segments = self.config.max_decompressed_message_bytes, self.segments
        with self.directory.failing():
            return lookups.offset_for_timestamp(segments, timestamp, self.local_log_start_offset, search, most)

    def max_timestamp_offset(self, search: Search = EXACT) -> OffsetForTimestamp | None:
        """The first record with the largest timestamp of all; None in an empty log."""
        with self.directory.failing():
            return lookups.max_timestamp_offset(self.segments, search, self.config.max_decompressed_message_bytes)

    def aborted_transactions(self, offset: int, end_offset: int) -> list[TransactionIndexEntry]:
        """The aborted transactions with records in ``offset .. end_offset``."""
        first = max(bisect_right(self.base_offsets, offset) - 1, 0)
        with self.directory.failing():
            return lookups.aborted_transactions(self.segments[first:], offset, end_offset)

    def aborted_within(self, offset: int, records: LogSlice) -> list[TransactionIndexEntry]:
        """The aborted transactions that a reader of ``records`` needs, read at ``offset``, as Kafka finds them."""
        first = max(bisect_right(self.base_offsets, offset) - 1, 0)
        end_position = records.position + records.length
        with self.directory.failing():
            return lookups.aborted_within(self.segments[first:], offset, end_position, self.end.offset)

    def last_stable_offset(self, high_watermark: LogOffset) -> LogOffset:
        """The offset up to which a reader of committed transactions may read: the first unstable one or the high
        watermark."""
        unstable = self.producers.first_unstable
        if unstable is None or unstable.offset >= high_watermark.offset:
            return high_watermark
        start = self.local_log_start_offset
        known = unstable.position >= 0 and unstable.offset >= start
        return unstable if known else self.position_of(max(unstable.offset, start))

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum([segment.size for segment in self.segments])

    # Letting go of the oldest and of the newest.

    def advance_log_start(self, offset: int) -> bool:
        """Make the records below ``offset`` unreadable (DeleteRecords, KIP-107). Return whether that changed anything.

        Segments wholly below it are deleted by the next round of retention. OffsetOutOfRange above the log end.
        """
        if offset > self.end.offset:
            raise self._out_of_range(offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._boundaries.clear()
        self.epochs.truncate_from_start(offset)
        self.producers.replicated_to(offset)
        return True

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Delete the oldest segments as `expendable` says. Return how many. DiskFailure."""
        bounds = self.end.offset, self.local_log_start_offset, high_watermark
        with self.directory.failing():
            gone = expendable(self.segments, *bounds, self.config, now_ms)
        return self.delete_oldest(gone, now_ms)

    def delete_oldest(self, count: int, now_ms: int) -> int:
        """Delete ``count`` of the oldest segments from the disk, none during compaction. Return how many. DiskFailure.

        The log start stays where a store has them (``is_tiered``), and none goes before its successor is durable.
        """
        if self.stop_compacting is not None:
            return 0
        if self.config.is_tiered:
            count = cutting.durably_followed(self, count)
        with self.directory.failing():
            self.directory.delete_due_files(now_ms)
            set_aside_oldest(self, count, now_ms)
        return count

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Remove every batch that reaches ``offset`` or beyond. Return whether there was any.

        The log then ends behind its last batch, which may be below ``offset``. Slices stay valid. DiskFailure.
        """
        if offset >= self.end.offset:
            self.epochs.truncate_from_end(self.end.offset)  # of a leader that fell before it wrote anything
            return False
        with self.directory.failing():
            cutting.truncate_to(self, offset, now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, *, log_start_offset: int | None = None) -> None:
        """Remove everything and continue at ``offset``, flushed as appends are. Readers may begin above it.
        DiskFailure."""
        with self.directory.failing():
            cutting.start_over(self, offset, offset if log_start_offset is None else log_start_offset, now_ms)
        if offset - self.recovery_point >= self._flush_messages:
            self.flush()

    def begin_in_middle(
        self, offset: int, log_start_offset: int, epochs: Epochs, producer_snapshot: bytes | None, now_ms: int
    ) -> None:
        """Remove everything and continue at ``offset`` with the epochs and producers of the records before, which a
        store has from ``log_start_offset`` on (Kafka: ``TierStateMachine.buildRemoteLogAuxState``). Durable at its end.

        ``producer_snapshot`` is the file for ``offset``. CorruptFile if it is damaged, before anything is changed;
        DiskFailure.
        """
        with self.directory.failing():
            cutting.begin_in_middle(self, offset, log_start_offset, epochs, producer_snapshot, now_ms)

    def forget_flushed(self, offset: int) -> None:
        """Count everything behind ``offset`` as not flushed, on disk too, before the next batch overwrites it."""
        self.end_compaction()
        self._boundaries.clear()
        self._complete_end = -1
        if self.flushing is not None:
            self.flushing.is_void = True
            take_back(self, self.flushing)
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.directory.lower_recovery_point(self)
        self.directory.was_cut(self, offset)

    # Producer snapshots, epochs, durability.

    def take_snapshot(self, *, passing: bool = False) -> None:
        """Write a snapshot of the producers at their end offset, unless there is one, unflushed. May raise OSError.

        A ``passing`` one is removed when the next one is written.
        """
        offset = self.producers.end_offset
        if offset > self.snapshots.last_or(self.local_log_start_offset):
            self.write_epochs()  # replay begins at the snapshot: what came before must be known without it
            self.snapshots.write(offset, self.producers.snapshot(), passing=passing)
            self._unsnapshotted_bytes = 0

    @property
    def has_unwritten_epochs(self) -> bool:
        """Whether the leader epoch checkpoint on disk is behind."""
        return self.epochs.dirty or self.folder.is_behind

    def write_epochs(self) -> None:
        """Write the leader epoch checkpoint if it is behind, after a thread that is writing it. May raise OSError."""
        folder = unwritten_epochs(self)
        if folder is not None:
            folder.write_epochs()

    def begin_flush(self) -> Flush | None:
        """The flush of everything that has to be made durable, to be run in any thread and then given to
        :meth:`finish_flush`.

        None while another flush of this log is under way, if there is nothing to do, and in an offline directory.
        """
        return begin_flush(self)

    @property
    def has_unflushed_removals(self) -> bool:
        """Whether segments that were removed may come back if the machine dies now."""
        return self.unflushed.removed_files or (self.flushing is not None and self.flushing.covered.removed_files)

    @property
    def is_in_use(self) -> bool:
        """Whether a flush or a cleaner is at work in the log's directory, which must not get another name then."""
        return self.flushing is not None or self.is_being_cleaned

    def finish_flush(self, flush: Flush) -> None:
        """Note that ``flush`` has run: the recovery point moves. `end_flush` is for one that may have failed."""
        if self.flushing is not flush:
            return
        self.flushing = None
        if self.is_open and not flush.is_void:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
            self.unflushed_bytes -= flush.size_bytes
            if self._unsnapshotted_bytes >= _SNAPSHOT_INTERVAL_BYTES:
                with self.directory.failing():
                    self.take_snapshot(passing=True)

    def flush(self) -> None:
        """Do a whole flush at once: everything appended is durable when this returns. DiskFailure if that fails."""
        flush_at_once(self)
