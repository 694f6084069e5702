"""One pass of compaction over one log, from the flush before it to the checkpoint after it.

1. Flush the log and write its recovery point: a compacted segment has gaps, which recovery must not take for losses.
2. Have a cleaner work on the segments that do not change any more.
3. Swap each group of segments in, and make its names durable before the next one.
4. Write the checkpoint.

The pass ends if the log is truncated, moved or closed, or if its topic is no longer compacted. Segments that were not
swapped in by then are discarded. Kafka's LogCleaner has the same steps in one thread.

Invariant: the cleaner has stopped writing, and its files are removed, before the end of the pass is reported.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kpybroker.hosts.replicas.cleaners import Answer, CleanerRun, Cleaners, CleaningTask, Stopped
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage import names
from kpystorage.compaction.dirtiness import Dirt
from kpystorage.compaction.swap import discard, swap_in
from kpystorage.compaction.task import (
    UNBOUNDED,
    Cleaned,
    CleanedSegments,
    CleanerConfig,
    CleanerStats,
    LastRecord,
    LogToClean,
    PassFailed,
)
from kpystorage.directory import LogDirectory
from kpystorage.disk import DescriptorsExhausted
from kpystorage.errors import DiskFailure
from kpystorage.flush import Flush, end_flush
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.producer_states import ProducerStates

log = logging.getLogger("kpybroker.compaction")

RETRY_MS = 20
AGAIN_AFTER_MS = 600_000
"""The delay before a log that could not be compacted for want of a resource is tried again."""

Over = Callable[[str | None, CleanerStats | None], object]
"""Called when a pass is over: with a message if the log cannot be compacted, with statistics if it was completed."""


def last_records(producers: ProducerStates) -> dict[int, LastRecord]:
    """The last record of every producer that is still known (``ProducerStateManager.lastRecordsOfActiveProducers``)."""
    return {
        producer_id: LastRecord(state.batches[-1].last_offset if state.batches else None, state.epoch)
        for producer_id, state in producers.producers.items()
    }


def droppable_until(config: LogConfig) -> int:
    """The offset up to which the cleaner of a disk may drop tombstones and markers: none of a tiered log, since a store
    may have older records of the same keys."""
    return 0 if config.is_tiered else UNBOUNDED


class PassHost(Protocol):
    """The compaction that a pass belongs to."""

    scheduler: Scheduler
    replicas: Replicas
    cleaners: Cleaners

    def write_checkpoint(self, directory: LogDirectory, then: Callable[[], object] | None = None) -> None:
        """Write the cleaner's checkpoint of a log directory, then call ``then``."""


class Pass:
    """A pass over one log."""

    def __init__(
        self, host: PassHost, replica: Replica, found: Log, dirt: Dirt, config: CleanerConfig, over: Over
    ) -> None:
        self.scheduler = host.scheduler
        self.host = host
        self.replica = replica
        self.log = found
        self.dirt = dirt
        self.config = config
        self.is_over = False
        self.may_pass = False
        """Whether another attempt may succeed after this one failed."""
        self._over = over
        self._waiting: list[Callable[[], object]] = []
        self._run: CleanerRun | None = None
        self._groups: deque[CleanedSegments] = deque()
        self._is_swapping = False
        self._result: Cleaned | PassFailed | Stopped | None = None
        self._mistake: str | None = None

    def then(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the pass is over."""
        self._waiting.append(callback)

    def abort(self) -> None:
        """Stop the pass: nothing more is swapped in, and it is over as soon as the cleaner has stopped."""
        if not self.is_over:
            self.is_over = True
            self.log.stop_compacting = None
            self._groups.clear()
            if self._run is None:
                self._finish(None, None)
            elif self._result is None:
                self._run.stop()
            else:
                self.scheduler.call_soon(self._go_on)

    # Before

    def begin(self) -> None:
        """Begin the pass, which then runs to its end."""
        self.log.stop_compacting = self.abort
        self._flush()

    def _flush(self) -> None:
        if self.is_over:
            return
        if self.log.recovery_point >= self.dirt.first_uncleanable_offset:
            self._note_recovery_point()
            return
        if self.log.directory.failure is not None:
            self.abort()
            return
        try:
            flush = self.log.begin_flush()
        except DiskFailure as failure:
            self._directory_failed(failure)
            return
        if flush is None:
            self.scheduler.call_later(RETRY_MS, self._flush)  # another one is under way
        else:
            self.scheduler.submit_flush(flush.attempt, lambda _, error: self._flushed(flush, error))

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        try:
            end_flush(self.log, flush, _for_good(error))
            self._flush()
        except DiskFailure as failure:
            self._directory_failed(failure)

    def _note_recovery_point(self) -> None:
        directory = self.log.directory
        content = directory.render_recovery_points()
        self.host.replicas.directories.write_checkpoint(directory, names.RECOVERY_POINTS, content, self._clean)

    def _clean(self) -> None:
        if self.is_over:
            return
        found, dirt, role = self.log, self.dirt, self.replica.role
        if found.directory.failure is not None:
            self.abort()
            return
        task = LogToClean(
            found.path,
            found.name,
            tuple(each for each in found.base_offsets[:-1] if each < dirt.first_uncleanable_offset),
            dirt.first_dirty_offset,
            dirt.first_uncleanable_offset,
            dirt.first_uncleanable_offset if role is None else role.high_watermark.offset,
            last_records(found.producers),
            found.config,
            droppable_until(found.config),
        )
        self._run = self.host.cleaners.clean(CleaningTask(task, self.config, self.scheduler.now_ms()), self._on_answer)
        found.is_being_cleaned = True

    # Meanwhile

    def _on_answer(self, answer: Answer) -> None:
        if isinstance(answer, CleanedSegments):
            if not self.is_over and not self.replica.topic.config.compact:
                self.abort()
            if not self.is_over:
                self._groups.append(answer)
        else:
            self._result = answer
        self._go_on()

    def _go_on(self) -> None:
        if self._is_swapping:
            return
        if self._groups:
            self._swap(self._groups.popleft())
        elif self._result is not None:
            result, self._result = self._result, None
            self._end(result)

    def _swap(self, group: CleanedSegments) -> None:
        try:
            swap_in(self.log, group, self.scheduler.now_ms())
            self._place_high_watermark(group)
        except DiskFailure as failure:
            self._directory_failed(failure)
        except ValueError as error:
            self._mistake = str(error)
            self.abort()
        else:
            self._make_durable()

    def _place_high_watermark(self, group: CleanedSegments) -> None:
        """Find the high watermark's position again if it refers to a replaced segment: it may be the end of one just
        sealed."""
        role = self.replica.role
        if role is not None and role.high_watermark.segment_base_offset in group.replaced:
            role.high_watermark = self.log.position_of(role.high_watermark.offset)

    def _make_durable(self) -> None:
        self._is_swapping = True
        self.scheduler.submit_flush(self.log.folder.synchronize, self._is_durable)

    def _is_durable(self, _result: None, error: BaseException | None) -> None:
        self._is_swapping = False
        if isinstance(error, DescriptorsExhausted) and not self.is_over:
            self._is_swapping = True
            self.scheduler.call_later(RETRY_MS, self._make_durable)
            return
        if isinstance(error, OSError):
            self._directory_failed(self.log.directory.fail(error))
        self._go_on()

    # After

    def _end(self, result: Cleaned | PassFailed | Stopped) -> None:
        if self.is_over:
            self._discard(result)
        elif isinstance(result, Cleaned):
            self._complete(result)
        elif isinstance(result, PassFailed) and result.errno is not None and not result.may_pass:
            self.is_over = True
            self.host.replicas.directory_failed(self.log.directory.fail(OSError(result.errno, result.line)))
            self._finish(None, None)
        else:
            self.is_over = True
            self._discard(result)

    def _complete(self, result: Cleaned) -> None:
        found, stats = self.log, result.stats
        self.is_over = True
        found.stop_compacting = None
        log.info(
            "Compacted %s from offset %d to %d: %.1f MB in %d records became %.1f MB in %d, in %.1f s",
            found.name, self.dirt.first_dirty_offset, result.end_offset, stats.bytes_read / 1e6, stats.messages_read,
            stats.bytes_written / 1e6, stats.messages_written, stats.elapsed_ms / 1000,
        )  # fmt: skip
        if stats.invalid_messages_read:
            log.warning("%d records without a key were removed from %s", stats.invalid_messages_read, found.name)
        found.directory.cleaner_offsets[found.topic, found.partition] = result.end_offset
        self.host.write_checkpoint(found.directory, lambda: self._finish(None, stats))

    def _discard(self, result: Cleaned | PassFailed | Stopped) -> None:
        """Remove the cleaner's files, then log and report the result."""
        line = result.line if isinstance(result, PassFailed) else self._mistake
        self.may_pass = isinstance(result, PassFailed) and result.may_pass
        if line is not None:
            how_long = f"for {AGAIN_AFTER_MS // 60_000} minutes" if self.may_pass else "from now on"
            log.warning("%s cannot be compacted and is left as it is %s: %s", self.log.name, how_long, line)
        if isinstance(result, PassFailed) and result.trace:
            log.error("The cleaner failed because of a defect:\n%s", result.trace)
        disk, folder = self.log.directory.disk, self.log.folder
        self.scheduler.submit_blocking(lambda: discard(disk, folder), lambda _result, _error: self._finish(line, None))

    def _directory_failed(self, failure: DiskFailure) -> None:
        self.abort()
        self.host.replicas.directory_failed(failure)

    def _finish(self, line: str | None, stats: CleanerStats | None) -> None:
        self.is_over = True
        self.log.is_being_cleaned = False
        self.log.stop_compacting = None
        self._over(line, stats)
        for callback in self._waiting:
            callback()


def _for_good(error: BaseException | None) -> BaseException | None:
    """Make the error final: a flush is not retried here, so it has failed if there was no file descriptor."""
    return OSError(error.errno, error.strerror) if isinstance(error, DescriptorsExhausted) else error
