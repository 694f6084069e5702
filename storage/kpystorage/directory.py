"""A log directory: one place on disk with many logs, its checkpoints, its lock (Kafka's LogManager, for one directory).

Not here: which of its logs a broker should have, when to flush and to checkpoint, which log is in which directory.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from kpystorage import checkpoint, names, partition_metadata
from kpystorage.clean_stop import complete
from kpystorage.cutting import begin_as
from kpystorage.disk import Disk, Lock, remove_tree
from kpystorage.errors import CorruptFile, CorruptLog, DirectoryLocked, NotMade
from kpystorage.home import Home, Randomness
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.listing import TopicPartition, list_logs
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.losses import Losses
from kpystorage.producer_states import ProducerStates
from kpystorage.recovery import NO_LOG_START, LoadedLog, LogLoader, Loss, Shutdown
from kpystorage.segment import Segment
from kpystorage.session import NO_BROKER_EPOCH, read_broker_epoch
from kpystorage.snapshot_files import SnapshotFiles

METADATA_TOPIC: Final = "__cluster_metadata"
SNAPSHOT_INTERVAL_BYTES: Final = 16 << 20
"""Bytes of a log that are replayed at a start before a snapshot of its producers is worth writing."""


class LogDirectory(Home):
    """A log directory in use by this process."""

    def __init__(
        self,
        path: str,
        disk: Disk,
        rng: Randomness,
        report: Callable[[str], None],
        default_config: LogConfig,
    ) -> None:
        """``report`` takes lines for the broker's log. Logs have ``default_config`` until they are configured."""
        super().__init__(path, disk, rng, report)
        self.default_config = default_config
        self.on_failure: Callable[[LogDirectory], None] | None = None
        """Called once, in the thread that met the failure."""
        self.shutdown = Shutdown.UNCLEAN
        """How the last writer ended."""
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The broker epoch in the clean shutdown file, for the registration of the broker (KIP-966); -1 after an
        unclean stop."""
        self.logs: dict[TopicPartition, Log] = {}
        """Every partition with a directory here, opened or not."""
        self.future_logs: dict[TopicPartition, Log] = {}
        """Copies that are being made of logs in other directories (KIP-113); see :meth:`promote`."""
        self.rolled: dict[Log, None] = {}
        """Logs that began a segment and were not flushed since. A flush is due; the code that does it removes them
        here."""
        self.in_the_making = 0
        """The number of logs that are about to be made here."""
        self.damaged: dict[TopicPartition, str] = {}
        """Logs that cannot be opened, and why."""
        self.losses = Losses()
        self.leftovers: list[str] = []
        """Names of directories that are to be removed."""
        self.strays: list[str] = []
        """Names of directories that were found to have no place in the cluster."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The high watermarks as checkpointed. The broker updates them before it has them written."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """The offset up to which each log was compacted, as in Kafka's cleaner checkpoint."""
        self._lock: Lock | None = None
        self._now_ms = 0
        self._half_made: set[str] = set()
        """Directories of new logs that could not be filled for want of a descriptor."""
        self._checkpoint_lock = disk.new_lock()
        self._rendered: dict[str, bytes] = {}
        self._written: dict[str, bytes] = {}
        self._promised_starts: dict[TopicPartition, int] = {}
        self._maybe_noted: set[TopicPartition] = set()
        """The partitions that the checkpoints on disk may mention."""

    # Taking over and leaving.

    def open(self, now_ms: int) -> None:
        """Lock the directory, read its checkpoints, list its logs. Opens no log; see :meth:`recover`.

        Raises:
            DirectoryLocked: another process uses it.
            CorruptFile: a checkpoint is malformed.
            DiskFailure: it cannot be read or written; the directory is offline.
        """
        self._now_ms = now_ms
        with self._guard:
            self._lock = self.disk.lock(self._file(names.LOCK))
        if self._lock is None:
            raise DirectoryLocked(f"{self.path} is in use by another process")
        try:
            self._take_over()
        except BaseException:
            self.abandon()
            raise

    def _take_over(self) -> None:
        with self._guard:
            self.shutdown = self._session.last_shutdown()
            if self.shutdown is Shutdown.CLEAN:
                epoch = read_broker_epoch(self.disk, self.path)
                self.previous_broker_epoch = NO_BROKER_EPOCH if epoch is None else epoch
            self.recovery_points = checkpoint.read_offsets(self.disk, self._file(names.RECOVERY_POINTS))
            self.log_starts = checkpoint.read_offsets(self.disk, self._file(names.LOG_STARTS))
            self.cleaner_offsets = checkpoint.read_offsets(self.disk, self._file(names.CLEANER_OFFSETS))
            self.high_watermarks = checkpoint.read_offsets(self.disk, self._file(names.HIGH_WATERMARKS))
            self._written[names.CLEANER_OFFSETS] = checkpoint.render_offsets(self.cleaner_offsets)
            self._maybe_noted = {*self.recovery_points, *self.log_starts, *self.cleaner_offsets, *self.high_watermarks}
            self._list_logs()
            self._drop_what_is_gone()
            self._session.begin(trusted=self.shutdown is not Shutdown.UNCLEAN)

    def _list_logs(self) -> None:
        listing = list_logs(self.disk, self.path)
        self.leftovers, self.strays = listing.leftovers, listing.strays
        self.losses.unseen.update(listing.logs)
        for key in listing.logs:
            self.logs[key] = Log(self, *key, None, self.default_config)
        for key, name in listing.copies.items():
            self.future_logs[key] = copy = Log(self, *key, None, self.default_config)
            copy.folder.path = self._file(name)

    def _drop_what_is_gone(self) -> None:
        """Drop logs that do not exist: checkpoints written before a log was deleted still name it, if the process died
        soon after."""
        for known in (self.recovery_points, self.log_starts, self.cleaner_offsets, self.high_watermarks):
            for key in known.keys() - self.logs.keys() - self.future_logs.keys():
                del known[key]

    def recover(self) -> Iterator[tuple[int, int]]:
        """Open all logs if the machine may have died, and read the parts that were not flushed; yields (done, in all).

        A log whose flushed data is damaged is reported and left out: using it raises CorruptLog. After the death of the
        process alone a log has so little to check that its first use does it, and :meth:`close` where there was none.

        Raises:
            DiskFailure: the directory goes offline.
        """
        if self.shutdown is Shutdown.UNCLEAN:
            yield from self._open_all()
            with self._guard:
                self._session.trust()

    def _open_all(self) -> Iterator[tuple[int, int]]:
        unopened = [
            log for log in self.every_log() if not log.is_open and (log.topic, log.partition) not in self.damaged
        ]
        for done, log in enumerate(unopened, 1):
            try:
                log.open()
            except CorruptLog as error:
                self.report(str(error))
            yield done, len(unopened)

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """A clean stop: complete and flush the logs, write the checkpoints and the clean shutdown file, unlock.

        An offline directory is only unlocked. With a damaged log in it, or one that lacks records, the stop does not
        count as clean: the next start finds the damage again, and has no part in in-sync sets (KIP-966).
        """
        try:
            if self.failure is None:
                with self._guard:
                    if self.shutdown is Shutdown.PROCESS_DIED:
                        deque(self._open_all(), maxlen=0)
                    complete(self.disk, self.path, [log for log in self.every_log() if log.is_open])
                    self.write_checkpoint(names.RECOVERY_POINTS, self.render_recovery_points())
                    self.write_checkpoint(names.LOG_STARTS, self.render_log_starts())
                    self.write_checkpoint(names.HIGH_WATERMARKS, self.render_high_watermarks())
                    if (offsets := self.render_cleaner_offsets()) != self._written[names.CLEANER_OFFSETS]:
                        self.write_checkpoint(names.CLEANER_OFFSETS, offsets)
                    is_claimed_whole = self.shutdown is Shutdown.CLEAN  # by the broker epoch it was registered with
                    if not self.damaged and not (is_claimed_whole and self.losses):
                        self._session.end(broker_epoch)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the directory as it is, as if the process had died, but unlock it."""
        for log in self.every_log():
            log.abandon()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def was_failed(self) -> None:
        if self.on_failure is not None:
            self.on_failure(self)

    # Logs.

    def every_log(self) -> list[Log]:
        """The logs in use and the copies."""
        return [*self.logs.values(), *self.future_logs.values()]

    def load(self, log: Log) -> None:
        """Open ``log`` (used by the log itself)."""
        if self.failure is not None:
            raise self.offline()
        key = (log.topic, log.partition)
        if key in self.damaged:
            raise CorruptLog(self.damaged[key])
        with self._guard:
            cleaned_to = self.cleaner_offsets.get(key, 0)
            loader = LogLoader(self.disk, log.path, log.config, self._now_ms, self.report, cleaned_to)
            try:
                start, flushed_to = self.log_starts.get(key, NO_LOG_START), self.recovery_points.get(key, 0)
                log.adopt(loader.load(self.shutdown, start, flushed_to))
                self.losses.opened(log, loader.loss, flushed_to)
            except CorruptLog as error:
                self.damaged[key] = str(error)
                raise
            if self.shutdown is not Shutdown.CLEAN and log.topic != METADATA_TOPIC:
                log.distrust_cache()  # of the metadata log nothing counts before it is flushed
            # Where little was replayed the next replay is short too: no file is written, nothing is waited for.
            if loader.replayed_bytes >= SNAPSHOT_INTERVAL_BYTES:
                log.take_snapshot()
        if log.end.offset - log.recovery_point >= log.config.flush_messages:
            log.flush()  # the last writer died before it could, and a client that asks again hears that it is there

    def loss_of(self, log: Log) -> Loss | None:
        """The records that an open, configured log has lost, until the loss is settled. DiskFailure."""
        with self._guard:
            return self.losses.of(log, self.cleaner_offsets.get((log.topic, log.partition), 0))

    def refuse(self, log: Log, why: str) -> CorruptLog:
        """Take this log out of use until an administrator has dealt with it. Return the exception to raise."""
        log.abandon()
        self.damaged[log.topic, log.partition] = why
        return CorruptLog(why)

    def name_blank(self, topic: str, partition: int) -> str:
        """A name under which `make_blank` may make the files of this partition's log."""
        return names.marked_directory(topic, partition, self._rng.getrandbits(128), names.DELETE_DIRECTORY)

    def make_blank(self, name: str, topic_id: bytes) -> None:
        """Make the files of a new empty log under a marked name, for `create_log` or `remove`. May run in a thread.

        Raises:
            DiskFailure: the directory is offline, or goes offline now.
        """
        if self.failure is not None:
            raise self.offline()
        path = self._file(name)
        with self._guard:
            self.disk.make_directory(path)
            self._session.changed()
            self.disk.write(
                f"{path}/{names.PARTITION_METADATA}", partition_metadata.render(topic_id), synchronize=False
            )
            for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.LOG):
                self.disk.write(f"{path}/{names.segment_file(0, suffix)}", b"", synchronize=False)

    def create_log(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        blank: str | None = None,
        start_offset: int = 0,
    ) -> Log:
        """Create a new empty log at ``start_offset``, from the files under ``blank`` if they were made before for
        offset 0 (`make_blank`).

        Nothing is flushed: the log's first flush makes its names durable.

        Raises:
            DiskFailure: the directory is offline, or goes offline now.
        """
        log = Log(self, topic, partition, topic_id, config)
        if blank is None:
            self._make(log, topic_id, start_offset, now_ms)
        else:
            self._take_blank(log, blank, now_ms)
        self.logs[topic, partition] = log
        return log

    def create_future_log(self, source: Log, topic_id: bytes, config: LogConfig, now_ms: int) -> Log:
        """Create a new empty log that becomes a copy of ``source``, from its first segment on disk. DiskFailure."""
        log = Log(self, source.topic, source.partition, topic_id, config)
        unique = self._rng.getrandbits(128)
        log.folder.path = self._file(names.marked_directory(log.topic, log.partition, unique, names.FUTURE_DIRECTORY))
        self._make(log, topic_id, source.base_offsets[0], now_ms)
        self.future_logs[log.topic, log.partition] = log
        if source.log_start_offset < source.base_offsets[0]:
            begin_as(log, source, now_ms)
        return log

    def promote(self, log: Log) -> None:
        """Make a copy the log of its partition: flushed, under the final name, for good. DiskFailure.

        No other log of the partition may be in this directory.
        """
        log.flush()
        # A copy of a compacted log has gaps, which recovery takes for losses where nothing says that it was flushed.
        self.write_checkpoint(names.RECOVERY_POINTS, self.render_recovery_points())
        path = self._file(names.partition_directory(log.topic, log.partition))
        with self._guard:
            log.folder.rename(path)
            self.disk.synchronize_directory(self.path)
            self._session.changed()
        for segment in log.segments:
            segment.moved(path)
        log.snapshots.moved(path)
        key = (log.topic, log.partition)
        del self.future_logs[key]
        self.logs[key] = log

    def _make(self, log: Log, topic_id: bytes, start_offset: int, now_ms: int) -> None:
        """Make the files of a new empty log."""
        self._check_new(log)
        with self._guard:
            if log.path not in self._half_made:
                self.disk.make_directory(log.path)
                self._half_made.add(log.path)
            metadata = f"{log.path}/{names.PARTITION_METADATA}"
            self.disk.write(metadata, partition_metadata.render(topic_id), synchronize=False)
            segment = Segment.create(self.disk, log.path, start_offset, now_ms, log.config)
            self._session.changed()
        self._half_made.discard(log.path)
        self._adopt_new(log, segment, start_offset)

    def _take_blank(self, log: Log, blank: str, now_ms: int) -> None:
        """Make the files under this name those of the log."""
        self._take_files(log, blank)
        with self._guard:
            segment = Segment.of_empty_files(self.disk, log.path, 0, now_ms, log.config)
        self._adopt_new(log, segment, 0)

    def _take_files(self, log: Log, blank: str) -> None:
        self._check_new(log)
        with self._guard:
            if log.path in self._half_made:
                deque(remove_tree(self.disk, log.path), maxlen=0)
                self._half_made.discard(log.path)
            self.disk.rename(self._file(blank), log.path)
            self._session.changed()

    def take_files(self, log: Log, blank: str) -> None:
        """Give an open log that has no files those under this name, and a place among the logs. DiskFailure."""
        self._take_files(log, blank)
        self.logs[log.topic, log.partition] = log
        earliest = log.epochs.earliest
        if earliest is None or earliest[1] != log.log_start_offset:  # the files do not show where readers begin
            self.write_checkpoint(names.LOG_STARTS, self.render_log_starts())
            self.noted()

    def _check_new(self, log: Log) -> None:
        if self.failure is not None:
            raise self.offline()
        if (log.topic, log.partition) in self._maybe_noted:
            self._forget_noted((log.topic, log.partition))

    def _adopt_new(self, log: Log, segment: Segment, start_offset: int) -> None:
        log.adopt(
            LoadedLog(
                segments=[segment],
                log_start_offset=start_offset,
                end_offset=start_offset,
                recovery_point=0,
                epochs=LeaderEpochs(),
                producers=ProducerStates(log.name, start_offset),
                snapshots=SnapshotFiles(self.disk, log.path),
                new_files=[f"{log.path}/{names.PARTITION_METADATA}"],
                new_directory=True,
                is_complete=False,
            )
        )

    def _forget_noted(self, key: TopicPartition) -> None:
        """Make the checkpoints forget a deleted log: their entries would otherwise be applied to a new log of the same
        name."""
        for known in (self.recovery_points, self.log_starts, self.cleaner_offsets, self.high_watermarks):
            known.pop(key, None)
        self.write_checkpoint(names.RECOVERY_POINTS, self.render_recovery_points())
        self.write_checkpoint(names.LOG_STARTS, self.render_log_starts())
        self.write_checkpoint(names.CLEANER_OFFSETS, self.render_cleaner_offsets())
        self.write_checkpoint(names.HIGH_WATERMARKS, self.render_high_watermarks())
        self._maybe_noted = {*self.recovery_points, *self.log_starts, *self.cleaner_offsets, *self.high_watermarks}

    def read_topic_id(self, log: Log) -> bytes | None:
        """The topic id in a log's ``partition.metadata``; None if it has none. DiskFailure, CorruptLog."""
        path = f"{log.path}/{names.PARTITION_METADATA}"
        with self._guard:
            try:
                return partition_metadata.parse(self.disk.read(path), path)
            except FileNotFoundError:
                return None
            except CorruptFile as error:
                raise CorruptLog(str(error)) from error

    def write_topic_id(self, log: Log, topic_id: bytes) -> None:
        """Write a ``partition.metadata`` that was missing or empty. DiskFailure."""
        with self._guard:
            path = f"{log.path}/{names.PARTITION_METADATA}"
            self.disk.write(path, partition_metadata.render(topic_id), synchronize=True)

    def mark(self, log: Log, mark: str = names.DELETE_DIRECTORY) -> str:
        """Take a log out of use: rename its directory so that it waits for removal (or says ``-stray``). Return that
        name.

        Slices of the log that are still held stay valid. Remove it later with :meth:`remove`.
        """
        name = names.marked_directory(log.topic, log.partition, self._rng.getrandbits(128), mark)
        log.abandon()
        with self._guard:
            log.folder.rename(self._file(name), is_leaving=mark == names.DELETE_DIRECTORY)
            self._session.changed()
        key = (log.topic, log.partition)
        for held in (self.logs, self.future_logs):
            if held.get(key) is log:
                for known in (self.recovery_points, self.log_starts, self.cleaner_offsets, self.high_watermarks, held):
                    known.pop(key, None)
                self.damaged.pop(key, None)
                self.losses.settle(log)
                self._promised_starts.pop(key, None)
        (self.leftovers if mark == names.DELETE_DIRECTORY else self.strays).append(name)
        return name

    def remove(self, name: str) -> Iterator[str]:
        """Remove a marked directory one file at a time; yields each path, so that the caller may pause."""
        with self._guard:
            yield from remove_tree(self.disk, self._file(name))
            self._session.changed()
        if name in self.leftovers:
            self.leftovers.remove(name)

    def lower_recovery_point(self, log: Log) -> None:
        """Correct the checkpoint of a log that was truncated below it, before the log is written to again."""
        key = (log.topic, log.partition)
        if self.recovery_points.get(key, 0) > log.recovery_point:
            self.write_checkpoint(names.RECOVERY_POINTS, self.render_recovery_points())
            self._session.changed()

    def was_cut(self, log: Log, offset: int) -> None:
        """Note that a log was cut: nothing behind the cut is compacted (``maybeTruncateCheckpoint``), nor will the log
        begin there."""
        key = (log.topic, log.partition)
        if self._promised_starts.get(key, 0) > offset:
            del self._promised_starts[key]
        if self.cleaner_offsets.get(key, 0) > offset:
            self.cleaner_offsets[key] = offset
            self.write_checkpoint(names.CLEANER_OFFSETS, self.render_cleaner_offsets())
            self._session.changed()

    # Checkpoints: rendered by the owner's thread, written by any, then noted.

    def render_recovery_points(self) -> bytes:
        """The recovery points: everything below these offsets is durable. Written by :meth:`write_checkpoint`."""
        for log in self.every_log():
            key = (log.topic, log.partition)
            if log.topic != METADATA_TOPIC:
                if log.is_open:
                    self.recovery_points[key] = log.recovery_point
                else:
                    self.recovery_points.setdefault(key, 0)
        return self._render(names.RECOVERY_POINTS, self.recovery_points)

    def promise_log_start(self, log: Log, offset: int) -> None:
        """Make the next checkpoint of log starts say ``offset``. The log moves its start when that is written.

        So no client sees a log start that the next start of the node does not know. NotMade: it has no files yet.
        """
        if log.need_files is not None:
            log.need_files()
            raise NotMade(f"{log.name} is being made, since its disk was lost")
        key = (log.topic, log.partition)
        self._promised_starts[key] = max(self._promised_starts.get(key, 0), offset)

    def render_log_starts(self) -> bytes:
        """The log starts that the segments on disk do not show, or soon may not."""
        for log in self.every_log():
            key = (log.topic, log.partition)
            if log.is_open and log.topic != METADATA_TOPIC:
                start = self._promised_starts.get(key, 0)
                if start <= log.log_start_offset:
                    self._promised_starts.pop(key, None)
                    start = log.log_start_offset
                if log.config.is_tiered or start > log.segments[0].base_offset or log.has_unflushed_removals:
                    self.log_starts[key] = start
                else:
                    self.log_starts.pop(key, None)
        return self._render(names.LOG_STARTS, self.log_starts)

    def render_high_watermarks(self) -> bytes:
        return self._render(names.HIGH_WATERMARKS, self.high_watermarks)

    def render_cleaner_offsets(self) -> bytes:
        """The offsets up to which logs have been compacted."""
        return self._render(names.CLEANER_OFFSETS, self.cleaner_offsets)

    def _render(self, name: str, offsets: dict[TopicPartition, int]) -> bytes:
        self._maybe_noted.update(offsets)
        self._rendered[name] = data = checkpoint.render_offsets(offsets)
        return data

    def write_checkpoint(self, name: str, data: bytes) -> None:
        """Replace a checkpoint. If it was rendered again in the meantime, the latest rendering is written.

        May run in a thread; call :meth:`noted` in the owner's thread afterwards. DiskFailure.
        """
        with self._guard, self._checkpoint_lock:
            data = self._rendered.get(name, data)
            if self._written.get(name) is not data:
                checkpoint.write_atomically(self.disk, self._file(name), data)
                self._written[name] = data

    def noted(self) -> None:
        """Note that a checkpoint was written: keep the session file in step, or the next start checks more than it
        must."""
        with self._guard:
            self._session.changed()

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"
