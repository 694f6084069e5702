"""The periodic work on logs: flushing, checkpoints, retention, forgetting old producers.

fsync runs in a thread and trails the appends, so that dirty pages do not pile up. No request waits for it, as in Kafka,
whose durability is replication and recovery (with ``flush.messages`` the append itself flushes). Checkpoints are
rendered on the loop and written in a thread.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.hosts.replicas.tiering import NoTiering, Tiering
from kpybroker.machines.errors import KafkaError
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.disk import DescriptorsExhausted
from kpystorage.errors import DiskFailure
from kpystorage.flush import Flush, begin_flush_of_epochs, end_flush
from kpystorage.log import Log
from kpystorage.recovery import Shutdown

log = logging.getLogger("kpybroker.upkeep")

FLUSH_CHECK_MS = 100
FLUSH_AFTER_BYTES = 64 * 1024 * 1024
FLUSHES_AT_ONCE = 4
FLUSH_RETRY_MS = 1000
LOGS_PER_CHECK = 200
"""Checking whether this many logs have to be flushed takes a quarter of a millisecond; with more it is done less
often."""
UNOPENED_CHECK_MS = 1000
UNOPENED_PER_MS = 2
"""Checking a partition without a role takes a microsecond, so with many of them it is done less often."""
REMOVAL_CHECK_MS = 1000
NEVER_MS = 2**63 - 1


class Upkeep:
    """The periodic work of one broker on its logs."""

    def __init__(
        self,
        scheduler: Scheduler,
        replicas: Replicas,
        config: Callable[[], BrokerConfig],
        tiering: Tiering | None = None,
    ) -> None:
        """``tiering`` decides which old segments may be deleted."""
        self.scheduler = scheduler
        self._tiering = NoTiering() if tiering is None else tiering
        self.replicas = replicas
        self.config = config
        self._timers: dict[Callable[[], None], Timer] = {}
        self._flushing = 0
        self._checks_to_skip = 0
        self._dirty: deque[Log] = deque()
        self._dirty_since_ms: dict[Log, float] = {}
        """The time when logs that are flushed by time were first seen to need it."""
        self._started_ms = 0.0
        self._next_look_ms = 0.0
        self._is_looking = False
        self._aging: deque[Replica] = deque()
        self._unready: deque[Replica] = deque()
        """Replicas whose leader epochs have to be on disk before their old segments are deleted."""
        self._shortened: set[LogDirectory] = set()
        """Directories with logs that lost segments in this round of retention."""
        self._first_delay_ms = 0.0
        """The delay of infrequent work after the start."""
        self._stopped = False

    def start(self) -> None:
        """Begin. The intervals are Kafka's."""
        config = self.config()
        self._first_delay_ms = config["log.initial.task.delay.ms"]
        self._started_ms = self.scheduler.monotonic_ms()
        self._every(FLUSH_CHECK_MS, self._flush_if_due)
        self._every(REMOVAL_CHECK_MS, self._remove_due_files)
        for key, work in (
            ("replica.high.watermark.checkpoint.interval.ms", self._checkpoint_high_watermarks),
            ("log.flush.offset.checkpoint.interval.ms", self._checkpoint_recovery_points),
            ("log.flush.start.offset.checkpoint.interval.ms", self._checkpoint_log_starts),
            ("log.retention.check.interval.ms", self._delete_old_segments),
            ("producer.id.expiration.check.interval.ms", self._forget_old_producers),
        ):
            self._every(config[key], work)

    def stop(self) -> None:
        """Stop."""
        self._stopped = True
        self._dirty.clear()
        self._aging.clear()
        self._unready.clear()
        for timer in self._timers.values():
            timer.cancel()

    def _every(self, interval_ms: float, work: Callable[[], None]) -> None:
        def due() -> None:
            try:
                work()
            except DiskFailure as failure:
                self.replicas.directory_failed(failure)
            except Exception:
                log.exception("The upkeep of logs failed because of a defect; it is tried again")
            if not self._stopped:
                self._timers[work] = self.scheduler.call_later(interval_ms, due)

        self._timers[work] = self.scheduler.call_later(min(interval_ms, self._first_delay_ms), due)

    # Flushing

    def _flush_if_due(self) -> None:
        """Flush all logs when enough unflushed bytes have gathered, and each log when its ``flush.ms`` has passed or it
        was rolled."""
        if self._flushing > 0:
            return
        self._dirty.extend(self._take_rolled())
        if self._checks_to_skip > 0:
            self._checks_to_skip -= 1
        else:
            self._look_for_unflushed()
            opened = self._open_logs()
            self._checks_to_skip = len(opened) // LOGS_PER_CHECK
            dirty = [found for found in opened if found.unflushed_bytes > 0]
            due = self._due_by_time(dirty)
            if sum(found.unflushed_bytes for found in dirty) >= FLUSH_AFTER_BYTES:
                due = dirty
            self._dirty.extend(due)
        self._flush_some()

    def _take_rolled(self) -> list[Log]:
        """Logs that began a segment (in Kafka ``flush-log``, scheduled by ``UnifiedLog.roll``)."""
        rolled: list[Log] = []
        for directory in self.replicas.directories:
            rolled += directory.rolled
            directory.rolled.clear()
        return rolled

    def _look_for_unflushed(self) -> None:
        """Look for logs without a role that may hold unflushed records for ``flush.ms``."""
        now_ms = self.scheduler.monotonic_ms()
        if now_ms >= self._next_look_ms and not self._is_looking:
            replicas = [replica for replica in self.replicas if replica.role is None]
            self._next_look_ms = now_ms + max(UNOPENED_CHECK_MS, len(replicas) / UNOPENED_PER_MS)
            self._is_looking = True
            self.scheduler.in_pieces(self._take_up_unflushed(replicas))

    def _take_up_unflushed(self, replicas: list[Replica]) -> Iterator[None]:
        try:
            for replica in replicas:
                if replica.role is None and replica.is_here and not self._stopped and self._may_be_unflushed(replica):
                    try:
                        self._dirty_since_ms[replica.held().log] = self._started_ms
                    except KafkaError:
                        pass  # it is gone by now
                    except DiskFailure as failure:
                        self.replicas.directory_failed(failure)
                yield
        finally:
            self._is_looking = False

    def _may_be_unflushed(self, replica: Replica) -> bool:
        """Whether a log is flushed by time and may hold unflushed records, including those of a process that died."""
        if replica.topic.config.flush_ms >= NEVER_MS:
            return False
        found = self.replicas.find_log(replica)
        if found is None:
            return False
        if found.is_open:
            return found.unflushed_bytes > 0
        return found.directory.shutdown is Shutdown.PROCESS_DIED

    def _due_by_time(self, dirty: list[Log]) -> list[Log]:
        now_ms, before = self.scheduler.monotonic_ms(), self._dirty_since_ms
        since = self._dirty_since_ms = {
            found: before.get(found, now_ms) for found in dirty if found.config.flush_ms < NEVER_MS
        }
        due = [found for found, since_ms in since.items() if now_ms - since_ms >= found.config.flush_ms]
        for found in due:
            del since[found]
        return due

    def _flush_some(self) -> None:
        """Flush a few logs at a time, since a flush keeps the files of its log open."""
        while self._dirty and self._flushing < FLUSHES_AT_ONCE:
            found = self._dirty.popleft()
            if found.is_open:
                self._flush(found)

    def _flush(self, found: Log) -> None:
        flush = found.begin_flush()
        if flush is not None:
            self._flushing += 1
            self._attempt(found, flush)
        elif found.flushing is not None:  # somebody else's flush, which began before this one was due
            found.directory.rolled[found] = None

    def _attempt(self, found: Log, flush: Flush) -> None:
        self.scheduler.submit_flush(flush.attempt, lambda _, error: self._flushed(found, flush, error))

    def _flushed(self, found: Log, flush: Flush, error: BaseException | None) -> None:
        if isinstance(error, DescriptorsExhausted):
            if not self._stopped:
                log.warning("%s is not flushed yet: %s", found.name, error)
                self.scheduler.call_later(FLUSH_RETRY_MS, self._attempt, found, flush)
                return
            error = OSError(error.errno, error.strerror)  # there is no later: what it covered counts as lost
        self._flushing -= 1
        try:
            end_flush(found, flush, error)
            self._flush_some()
        except DiskFailure as failure:
            self.replicas.directory_failed(failure)

    # Checkpoints

    def _checkpoint_high_watermarks(self) -> None:
        self.replicas.checkpoint_high_watermarks()
        for directory in self.replicas.directories:
            self._write(directory, names.HIGH_WATERMARKS, directory.render_high_watermarks())

    def _checkpoint_recovery_points(self) -> None:
        for directory in self.replicas.directories:
            self._write(directory, names.RECOVERY_POINTS, directory.render_recovery_points())

    def _checkpoint_log_starts(self) -> None:
        for directory in self.replicas.directories:
            self._write(directory, names.LOG_STARTS, directory.render_log_starts())

    def _write(self, directory: LogDirectory, name: str, content: bytes) -> None:
        self.replicas.directories.write_checkpoint(directory, name, content)

    # Retention

    def _delete_old_segments(self) -> None:
        """Delete old segments of all logs, a few logs in a turn: those that were not used since the start have to be
        opened."""
        if not self._aging and not self._unready:
            self._aging.extend(replica for replica in self.replicas if self._may_age(replica))
            self.scheduler.in_pieces(self._delete_in_pieces())

    def _delete_in_pieces(self) -> Iterator[None]:
        now_ms = self.scheduler.now_ms()
        while self._aging:
            replica = self._aging.popleft()
            try:
                self._shorten(replica, now_ms)
            except KafkaError:
                continue  # it is gone by now
            except DiskFailure as failure:
                self.replicas.directory_failed(failure)
            yield
        for directory in self._shortened:
            if directory.failure is None:  # the renamed files may be back if the machine dies before it is written
                self._write(directory, names.LOG_STARTS, directory.render_log_starts())
        self._shortened.clear()
        self._make_ready()

    def _shorten(self, replica: Replica, now_ms: int) -> None:
        """Delete old segments of one log, unless its leader epochs have to be on disk first."""
        role = replica.held()
        found = role.log
        gone = self._tiering.expendable(replica, role, now_ms)
        if gone and found.has_unwritten_epochs:
            self._unready.append(replica)
        elif gone:
            start = found.log_start_offset
            if found.delete_oldest(gone, now_ms):
                self._shortened.add(found.directory)
            if found.log_start_offset != start:
                self.replicas.log_start_moved(replica)

    def _make_ready(self) -> None:
        """Write the leader epochs of the next log in a thread. Otherwise the new segment that replaces the last one
        would wait for them on the loop."""
        while self._unready:
            replica = self._unready.popleft()
            found = replica.log
            flush = begin_flush_of_epochs(found) if found is not None and found.is_open else None
            if found is not None and flush is not None:
                self.scheduler.submit_flush(flush.attempt, partial(self._made_ready, replica, found, flush))
                return
        if self._aging:
            self.scheduler.in_pieces(self._delete_in_pieces())

    def _made_ready(
        self, replica: Replica, found: Log, flush: Flush, _result: None, error: BaseException | None
    ) -> None:
        try:
            is_tried_again = isinstance(error, DescriptorsExhausted)  # with the next round
            end_flush(found, flush, None if is_tried_again else error)
            if not is_tried_again:
                self._aging.append(replica)
        except DiskFailure as failure:
            self.replicas.directory_failed(failure)
        if not self._stopped:
            self._make_ready()

    def _may_age(self, replica: Replica) -> bool:
        if replica.log is not None:
            return replica.log.need_files is None
        found = self.replicas.find_log(replica)
        if found is None:
            return False  # nothing of it is on a disk
        config = replica.topic.config
        if config.tier is not None:
            return True
        if config.delete and (config.retention_ms >= 0 or config.retention_bytes >= 0):
            return True
        return (replica.topic.name, replica.index) in found.directory.log_starts

    def _remove_due_files(self) -> None:
        """Remove files of segments whose ``file.delete.delay.ms`` has passed, a few at a time, in a thread."""
        now_ms = self.scheduler.now_ms()
        for directory in list(self.replicas.directories):
            due = directory.take_due_files(now_ms)
            if due:
                self.scheduler.submit_upkeep(partial(directory.remove_files, due), self._removed)

    def _removed(self, _result: None, error: BaseException | None) -> None:
        if isinstance(error, DiskFailure):
            self.replicas.directory_failed(error)
        elif not self._stopped:
            self._remove_due_files()

    def _forget_old_producers(self) -> None:
        now_ms = self.scheduler.now_ms()
        expiration_ms = self.config().producer_id_expiration_ms
        for replica in self.replicas:
            found, leader = replica.log, replica.leader
            if found is not None and found.is_open:
                found.producers.expire(now_ms, expiration_ms)
            if leader is not None:
                leader.verifications.expire(now_ms, expiration_ms)

    def _open_logs(self) -> list[Log]:
        return [role.log for replica in self.replicas if (role := replica.role) is not None and role.log.is_open]
