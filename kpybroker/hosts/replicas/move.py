"""One partition that moves from one log directory of this node to another, while it is written (KIP-113, KIP-858).

A copy is made beside the log, with the same batches, in segments that begin where the log's begin. When it has caught
up it is flushed, and the node reports the new directory to the controller. Then, in one step, the rest of the
log is copied, the copy is renamed to be the log, and the old directory is renamed to be removed
(``ReplicaAlterLogDirsThread``, ``LogManager.replaceCurrentWithFutureLog``).

Not here: which partitions move and where to, and moves that end otherwise (`kpybroker.hosts.replicas.moves`).

Invariant: before that step nothing depends on the copy, after it nothing on the old log; and in it the copy holds every
batch of the log, durable.
"""

from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.throttle import ReplicaThrottle
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage import names
from kpystorage.cutting import begin_as
from kpystorage.disk import DescriptorsExhausted
from kpystorage.errors import DiskFailure, TooManyOpenFiles
from kpystorage.flush import Flush, end_flush
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.log_offset import LogOffset
from kpystorage.log_slice import LogSlice
from kpywire.batch import batch_headers, check_crc
from kpywire.errors import Malformed

LARGEST_CHUNK_BYTES = 1 << 20
SMALLEST_CHUNK_BYTES = 64 << 10
BATCHES_AT_ONCE = 1_000
"""One step of the loop copies about this many batches, judged by the size of the last ones: some two milliseconds'
work."""
PATIENCE = 1_000
"""After this many steps in which a copy did not reach the end of its log, the swap may begin with more missing."""
LOOK_AGAIN_MS = 20
RETRY_MS = 1_000
_MAX_INT = (1 << 31) - 1
_MAX_LONG = (1 << 63) - 1


def while_copied(config: LogConfig) -> LogConfig:
    """The configuration of a copy: it does nothing by itself, so that it has the segments of its log."""
    return config._replace(
        segment_bytes=_MAX_INT,
        segment_ms=_MAX_LONG,
        segment_jitter_ms=0,
        preallocate=False,
        retention_bytes=-1,
        retention_ms=-1,
        file_delete_delay_ms=0,
        flush_messages=_MAX_LONG,
    )


def keep_common(copy: Log, source: Log, now_ms: int) -> None:
    """Truncate a copy to the common part with its log, which may have lost its end when the machine died.
    DiskFailure."""
    first = copy.base_offsets[0]
    while copy.epochs.latest >= 0 and copy.local_log_start_offset <= source.local_log_start_offset:
        epoch, end_offset = source.epochs.end_offset_for(copy.epochs.latest, source.end.offset)
        if epoch == copy.epochs.latest:
            if end_offset < first:
                break  # in the part that a store has: what is on this disk follows something else
            copy.truncate_to(min(end_offset, source.end.offset), now_ms)
            return
        began = copy.epochs.entries()[-1][1]
        copy.truncate_to(max(began, first), now_ms)
        copy.epochs.truncate_from_end(began)
    begin_as(copy, source, now_ms)


class Assignment(Enum):
    """The controller's knowledge of a move."""

    NOT_ASKED = 0
    ASKED = 1
    DONE = 2


class MoveParts(NamedTuple):
    """The parts of the node that a move uses, and the callbacks that it calls."""

    scheduler: Scheduler
    directories: Directories
    throttle: ReplicaThrottle
    assign: "Callable[[Move], None]"
    """Have the controller note the new directory; `Move.assigned` is called when it has."""
    swap: "Callable[[Move], None]"
    """Make the copy the log: it is complete and durable."""
    give_up: "Callable[[Move, str], None]"


class Move:
    """The copy of one log. The first `step` starts it; it goes on by itself until ``is_over`` is set."""

    def __init__(self, replica: Replica, source: Log, copy: Log, parts: MoveParts) -> None:
        self.replica = replica
        self.source = source
        self.copy = copy
        self.assignment = Assignment.NOT_ASKED
        self.is_over = False
        self._parts = parts
        self._is_reading = self._is_stale = False
        """Whether the bytes that are being read are no longer in the log."""
        self._chunk_bytes = SMALLEST_CHUNK_BYTES
        """How many bytes one step copies."""
        self._steps_assigned = 0
        self._noted_start = -1
        """The log start that is on disk in the copy's directory."""

    def __str__(self) -> str:
        return f"{self.source.name} from {self.source.directory.path} to {self.copy.directory.path}"

    def step(self) -> None:
        """Do the next piece, or wait for what it needs."""
        if not self.is_over:
            self._guarded(self._go_on)

    def assigned(self) -> None:
        """Note that the controller knows the new directory. The next step, which is already scheduled, goes on from
        there."""
        self.assignment = Assignment.DONE

    def source_was_cut(self) -> None:
        """Truncate the copy too: the log has lost its end, which its leader does not have."""
        self._is_stale = self._is_reading
        self._guarded(lambda: keep_common(self.copy, self.source, self._parts.scheduler.now_ms()))

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except TooManyOpenFiles as failure:
            self._parts.directories.check(failure)
            self._later(RETRY_MS)
        except DiskFailure as failure:
            self._parts.directories.check(failure)  # ends the moves of a directory that failed, this one perhaps
            if not self.is_over:
                self._parts.give_up(self, str(failure))
        except Malformed as error:
            self._parts.give_up(self, f"{self.source.path} is damaged: {error}")

    def _later(self, delay_ms: float) -> None:
        self._parts.scheduler.call_later(delay_ms, self.step)

    def _go_on(self) -> None:
        scheduler, source, copy = self._parts.scheduler, self.source, self.copy
        self._follow_start()
        missing_bytes = source.size - copy.size
        if self.assignment is Assignment.DONE and missing_bytes <= self._swap_at_most_bytes() and self._swap():
            return
        wait_ms = self._parts.throttle.wait_ms(scheduler.monotonic_ms())
        if wait_ms > 0:
            self._later(wait_ms)
            return
        most = self._parts.throttle.at_once(self._chunk_bytes)
        found = self._missing(most)
        if found is not None:
            self._is_reading = True
            scheduler.submit_blocking(found.read, self._got)
        elif self.assignment is Assignment.NOT_ASKED:
            self._reach_end()
            self._make_durable()
        else:
            self._later(LOOK_AGAIN_MS)

    def _swap_at_most_bytes(self) -> int:
        """How many bytes may be missing when the swap begins. Clients wait while they are copied, so it is as much as
        one step copies.

        It grows with time, since a log that is written as fast as it is copied would otherwise move for ever.
        """
        self._steps_assigned += 1
        return self._chunk_bytes * (1 + self._steps_assigned // PATIENCE)

    # Copying

    def _follow_start(self) -> None:
        """Delete from the copy what the log has deleted."""
        source, copy = self.source, self.copy
        now_ms = self._parts.scheduler.now_ms()
        if source.config.is_tiered:
            self._follow_local_start(now_ms)
        start = source.log_start_offset
        if copy.log_start_offset >= start:
            return
        if copy.end.offset >= start:
            copy.advance_log_start(start)
            copy.delete_old_segments(now_ms, copy.end.offset)
        else:
            first = self._segment_of(source.local_log_start_offset)
            if copy.end.offset < first:
                copy.truncate_fully_and_start_at(first, now_ms)
        copy.directory.delete_due_files(now_ms)

    def _follow_local_start(self, now_ms: int) -> None:
        """Delete from the copy what the log has deleted from its disk, since a store has it."""
        source, copy = self.source, self.copy
        first = source.base_offsets[0]
        if copy.end.offset < first:
            begin_as(copy, source, now_ms)
        elif copy.base_offsets[0] < first:
            copy.delete_oldest(bisect_right(copy.base_offsets, first) - 1, now_ms)

    def _segment_of(self, offset: int) -> int:
        """The base offset of the log's segment that holds an offset."""
        segments = self.source.segments
        at = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
        return segments[max(at - 1, 0)].base_offset

    def _missing(self, most: int) -> LogSlice | None:
        """The next slice of the log to copy; None at its end."""
        source = self.source
        offset = max(self.copy.end.offset, source.local_log_start_offset)
        return source.read(offset, most, source.end, min_one_batch=True)

    def _got(self, data: bytes | None, error: BaseException | None) -> None:
        is_stale, self._is_stale, self._is_reading = self._is_stale, False, False
        if self.is_over:
            return

        def append() -> None:
            if isinstance(error, OSError):
                raise self.source.directory.fail(error) from error
            assert data is not None, error
            if not is_stale:
                self._append(data)
            self._parts.scheduler.call_soon(self.step)

        self._guarded(append)

    def _append(self, data: bytes) -> None:
        """Write whole batches of one segment to the copy. DiskFailure; Malformed if a batch is damaged."""
        headers = []
        end = 0
        for position, header in batch_headers(data):
            if not check_crc(data, header, position):
                raise Malformed(f"the batch at offset {header.base_offset} has another CRC than it declares")
            headers.append(header)
            end = position + header.size
        if not headers:
            raise Malformed(f"no batch begins where offset {self.copy.end.offset} should be")
        copy, now_ms = self.copy, self._parts.scheduler.now_ms()
        base_offset = self._segment_of(headers[0].base_offset)
        if copy.active.base_offset < base_offset and base_offset >= copy.end.offset:
            with copy.directory.failing():
                copy.roll(now_ms, base_offset)
        copy.append(headers, data if end == len(data) else data[:end], now_ms)
        chunk_bytes = end // len(headers) * BATCHES_AT_ONCE
        self._chunk_bytes = min(max(chunk_bytes, SMALLEST_CHUNK_BYTES), LARGEST_CHUNK_BYTES)
        self._parts.throttle.count(end, self._parts.scheduler.monotonic_ms())

    def _reach_end(self) -> None:
        """Move the copy's end to the log's if that is an empty segment after its last batch: compaction removed the
        records before it."""
        source, copy = self.source, self.copy
        if copy.end.offset < source.end.offset and source.active.size == 0:
            with copy.directory.failing():
                copy.roll(self._parts.scheduler.now_ms(), source.active.base_offset)
            copy.end = LogOffset(source.end.offset, copy.active.base_offset, 0)

    # Making durable

    def _make_durable(self) -> None:
        """Flush the copy in a thread and note it in its directory's checkpoints; then tell the controller."""
        self._take_epochs()
        flush = self.copy.begin_flush()
        if flush is not None:
            self._attempt(flush)
        elif self.copy.is_in_use:  # somebody else's flush, or one of what was cut meanwhile
            self._later(LOOK_AGAIN_MS)
        else:
            self._note()

    def _take_epochs(self) -> None:
        """Copy the log's leader epochs, including those of leaders that wrote nothing (KAFKA-20961)."""
        entries = self.source.epochs.entries()
        if self.copy.epochs.entries() != entries:
            self.copy.epochs = LeaderEpochs(entries)
            self.copy.epochs.dirty = True

    def _attempt(self, flush: Flush) -> None:
        self._parts.scheduler.submit_flush(flush.attempt, lambda _, error: self._flushed(flush, error))

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        if isinstance(error, DescriptorsExhausted):
            self._parts.scheduler.call_later(RETRY_MS, self._attempt, flush)
            return

        def go_on() -> None:
            end_flush(self.copy, flush, error)
            if not self.is_over:
                self._note()

        self._guarded(go_on)

    def _note(self) -> None:
        """Write the copy's recovery point and log start to the checkpoints: it may become the log at any time from now
        on."""
        directory = self.copy.directory
        start = self.copy.log_start_offset
        write = self._parts.directories.write_checkpoint

        def noted() -> None:
            if not self.is_over and directory.failure is None:
                self._noted_start = start
                if self.assignment is Assignment.NOT_ASKED:
                    self.assignment = Assignment.ASKED
                    self._parts.assign(self)
                self.step()

        write(
            directory,
            names.RECOVERY_POINTS,
            directory.render_recovery_points(),
            lambda: write(directory, names.LOG_STARTS, directory.render_log_starts(), noted),
        )

    # The step that counts

    def _swap(self) -> bool:
        """Copy the rest and let the copy take the log's place; False if something has to be done or waited for first.

        DiskFailure, Malformed.
        """
        source, copy = self.source, self.copy
        if source.is_in_use:
            return False  # it could not be deleted at once, and would still be found
        while copy.end.offset < source.end.offset:
            found = self._missing(self._chunk_bytes)
            if found is None:
                self._reach_end()
                break
            with source.directory.failing():
                data = found.read()
            self._append(data)
        if copy.end.offset != source.end.offset:
            raise Malformed(f"its end {source.end.offset} cannot be reached from {copy.end.offset}")
        self._follow_start()
        if copy.log_start_offset != self._noted_start:
            self._make_durable()
            return True
        self._take_epochs()
        self._parts.swap(self)
        return True
