"""Compaction of the logs that this node holds: choosing the next log, starting a pass, and handling its result.

As in Kafka, the log with the largest dirty part comes first, ``log.cleaner.threads`` of them at a time. When none is
dirty enough, they are checked again after ``log.cleaner.backoff.ms``, a few in a turn. A log that has not been used
since the start is opened only if it has segments that were never compacted. A log that cannot be compacted is left
alone from then on, or for a while if the log is not the cause, and the broker goes on.

Not here: deciding (:mod:`kpystorage.compaction.dirtiness`), cleaning (:mod:`kpybroker.hosts.replicas.cleaners`), a pass
over one log (:mod:`kpybroker.hosts.replicas.compaction_pass`).
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.replicas.cleaners import Cleaners
from kpybroker.hosts.replicas.compaction_pass import AGAIN_AFTER_MS, Pass
from kpybroker.hosts.replicas.neighbours import Moving
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.errors import KafkaError
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage import names
from kpystorage.compaction.dirtiness import Dirt, LogBounds, measure
from kpystorage.compaction.task import CleanerConfig, CleanerStats
from kpystorage.directory import LogDirectory
from kpystorage.errors import DiskFailure
from kpystorage.log import Log

log = logging.getLogger("kpybroker.compaction")

SLICE_MS = 1.0
"""How long logs are checked in one turn."""
REST_AFTER_MS = 60_000.0
"""Cleaners that had nothing to do for this long are released."""
LARGEST_BUFFER_BYTES = 2**31 - 1
UNLIMITED = 1.7976931348623157e308
"""Java's largest double: the default of ``log.cleaner.io.max.bytes.per.second``."""

Asked = Callable[[str | None], object]
"""Called when a requested compaction is over, with a message if it failed."""


class Uncleanable(NamedTuple):
    """A log on which a cleaner has failed, and how much of it was dirty then."""

    replica: Replica
    dirty_bytes: int
    until_ms: float = float("inf")
    """The time when it is tried again, on the monotonic clock."""


class CompactionCandidate(NamedTuple):
    """A log that could be compacted."""

    replica: Replica
    log: Log
    dirt: Dirt


class CleanerFigures:
    """The results of the cleaners, for the metrics (Kafka's LogCleaner and LogCleanerManager)."""

    def __init__(self, last_run_ms: int) -> None:
        self.last_passes: deque[CleanerStats] = deque(maxlen=1)
        """The statistics of the last passes, as many as there are cleaners."""
        self.max_dirty_ratio = 0.0
        """The dirty ratio of the log that was chosen last."""
        self.max_delay_ms = 0
        """The most by which a log exceeded its ``max.compaction.lag.ms`` when logs were last checked."""
        self.last_run_ms = last_run_ms
        """The time when logs were last checked."""


def cleaner_config(config: BrokerConfig) -> CleanerConfig:
    """The limits of one cleaner."""
    threads = max(config["log.cleaner.threads"], 1)
    bytes_per_second = config["log.cleaner.io.max.bytes.per.second"]
    return CleanerConfig(
        dedupe_buffer_bytes=min(config["log.cleaner.dedupe.buffer.size"] // threads, LARGEST_BUFFER_BYTES),
        load_factor=config["log.cleaner.io.buffer.load.factor"],
        io_buffer_bytes=max(config["log.cleaner.io.buffer.size"] // threads // 2, 1),
        max_io_bytes_per_second=bytes_per_second / threads if bytes_per_second < UNLIMITED else float("inf"),
    )


class Compaction:
    """The compaction of one broker's logs."""

    def __init__(
        self,
        scheduler: Scheduler,
        replicas: Replicas,
        moves: Moving,
        config: Callable[[], BrokerConfig],
        cleaners: Cleaners,
    ) -> None:
        self.scheduler = scheduler
        self.replicas = replicas
        self._moves = moves
        self.config = config
        self.cleaners = cleaners
        self.figures = CleanerFigures(last_run_ms=scheduler.now_ms())
        self.uncleanable: dict[Log, Uncleanable] = {}
        self._passes: dict[Log, Pass] = {}
        self._asked: deque[tuple[Replica, Asked]] = deque()
        self._looking: deque[Replica] = deque()
        self._candidates: list[CompactionCandidate] = []
        self._clean: dict[Log, None] = {}
        """Unopened logs with nothing to compact, which do not change until they are opened."""
        self._timer: Timer | None = None
        self._worked_ms = scheduler.monotonic_ms()
        self._is_enabled = False
        self._stopped = False

    def start(self) -> None:
        """Begin, unless ``log.cleaner.enable`` is false."""
        config = self.config()
        self._is_enabled = config["log.cleaner.enable"]
        self.figures.last_passes = deque(maxlen=max(config["log.cleaner.threads"], 1))
        if self._is_enabled:
            self._look_later()

    def stop(self) -> None:
        """Stop; logs that were being compacted stay as they were."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._looking.clear()
        for each in list(self._passes.values()):
            each.abort()
        self.cleaners.stop()

    def compact(self, replica: Replica, done: Asked) -> None:
        """Compact all of a partition now, however little that is: for tests. ``done`` is called afterwards."""
        self._asked.append((replica, done))
        self.scheduler.call_soon(self._serve_asked)

    # Looking for the dirtiest log

    def _look_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._stopped:
            self._timer = self.scheduler.call_later(self.config()["log.cleaner.backoff.ms"], self._look)

    def _look(self) -> None:
        self._timer = None
        if self.scheduler.monotonic_ms() - self._worked_ms >= REST_AFTER_MS and not self._passes:
            self.cleaners.rest()
        self._forget_gone()
        self._candidates = []
        self._looking = deque(each for each in self.replicas if _is_cleaned(each))
        self._look_at_some()

    def _look_at_some(self) -> None:
        until_ms = self.scheduler.monotonic_ms() + SLICE_MS
        while self._looking:
            self._look_at(self._looking.popleft())
            if self._looking and self.scheduler.monotonic_ms() >= until_ms:
                self.scheduler.call_soon(self._look_at_some)
                return
        if not self._stopped:
            self._begin_some()

    def _look_at(self, replica: Replica) -> None:
        found = self.replicas.find_log(replica)
        if found is None or found in self._passes or found in self.uncleanable or self._may_stay_closed(found):
            return
        if self._moves.is_moving(found.topic, found.partition):
            return  # as in Kafka, it is compacted again where it moves to
        try:
            self._candidates.append(self._measure(replica))
        except KafkaError:
            pass  # it is gone by now
        except DiskFailure as failure:
            self.replicas.directory_failed(failure)
        except Exception:
            log.exception("%s is no longer compacted because of a defect", replica)
            self.uncleanable[found] = Uncleanable(replica, 0)

    def _may_stay_closed(self, found: Log) -> bool:
        """Whether there is nothing to compact, as far as the names of its files show."""
        if found.is_open:
            return False
        if found not in self._clean:
            try:
                listed = found.directory.disk.list_directory(found.path)
            except OSError:
                return False
            parsed = [each for each in map(names.parse_segment_file, listed) if each is not None]
            bases = [base_offset for base_offset, suffix in parsed if suffix == names.LOG]
            cleaned_to = found.directory.cleaner_offsets.get((found.topic, found.partition), 0)
            if len(bases) > 1 and max(bases) > cleaned_to:
                return False
            self._clean[found] = None
        return True

    def _measure(self, replica: Replica) -> CompactionCandidate:
        role = replica.held()
        found = role.log
        directory, key = found.directory, (found.topic, found.partition)
        bounds = LogBounds(found.local_log_start_offset, found.end.offset, role.last_stable_offset().offset)
        with directory.failing():
            cleaned_to = directory.cleaner_offsets.get(key)
            dirt = measure(found.segments, bounds, cleaned_to, found.config, self.scheduler.now_ms())
        if dirt.is_checkpoint_invalid:
            if not (found.config.cleanup_delete or found.config.is_tiered):
                log.warning(
                    "%s: the cleaner's checkpoint has offset %d, not between log start %d and log end %d; "
                    "the whole log is dirty", found.name, cleaned_to, bounds.log_start_offset, bounds.log_end_offset,
                )  # fmt: skip
            directory.cleaner_offsets[key] = dirt.first_dirty_offset
            self.write_checkpoint(directory)
        return CompactionCandidate(replica, found, dirt)

    def _begin_some(self) -> None:
        candidates, self._candidates = self._candidates, []
        self.figures.last_run_ms = self.scheduler.now_ms()
        self.figures.max_delay_ms = max([each.dirt.delay_ms for each in candidates], default=0)
        worth_it = sorted(
            (each for each in candidates if each.dirt.is_worth_it(each.log.config)), key=lambda each: -each.dirt.ratio
        )
        self.figures.max_dirty_ratio = max([each.dirt.ratio for each in candidates], default=0.0)
        for each in worth_it[: max(self.config()["log.cleaner.threads"] - len(self._passes), 0)]:
            self._begin(each, lambda _line: None)
        if not self._passes:
            self._look_later()

    def _begin(self, chosen: CompactionCandidate, done: Asked) -> None:
        found = chosen.log

        def over(line: str | None, stats: CleanerStats | None) -> None:
            ended = self._passes.pop(found)
            self._worked_ms = self.scheduler.monotonic_ms()
            if stats is not None:
                self.figures.last_passes.append(stats)
            if line is not None and found.is_open:
                until_ms = self._worked_ms + AGAIN_AFTER_MS if ended.may_pass else float("inf")
                self.uncleanable[found] = Uncleanable(chosen.replica, chosen.dirt.cleanable_bytes, until_ms)
            done(line)
            if self._is_enabled and self._timer is None and not self._looking and not self._stopped:
                self.scheduler.call_soon(self._look)  # as long as there is something, there may be more

        self._passes[found] = Pass(self, chosen.replica, found, chosen.dirt, cleaner_config(self.config()), over)
        self._passes[found].begin()

    def _forget_gone(self) -> None:
        now_ms = self.scheduler.monotonic_ms()
        for found, why in list(self.uncleanable.items()):
            if why.until_ms <= now_ms or not self._is_held(found):
                del self.uncleanable[found]
        for found in [each for each in self._clean if each.is_open or not self._is_held(each)]:
            del self._clean[found]

    def _is_held(self, found: Log) -> bool:
        return found.directory.logs.get((found.topic, found.partition)) is found

    # On request

    def _serve_asked(self) -> None:
        for _ in range(len(self._asked)):
            replica, done = self._asked.popleft()
            found = self.replicas.find_log(replica)
            if found is not None and found in self._passes:
                self._asked.append((replica, done))
                self._passes[found].then(self._serve_asked)
                return
            self._compact_now(replica, done)

    def _compact_now(self, replica: Replica, done: Asked) -> None:
        try:
            found = replica.held().log
            if found.active.size:
                with found.directory.failing():
                    found.roll(self.scheduler.now_ms())
            chosen = self._measure(replica)
        except (KafkaError, DiskFailure) as error:
            done(f"{replica}: {error}")
            return
        self._begin(chosen, done) if chosen.dirt.total_bytes else done(None)

    # Checkpoints

    def write_checkpoint(self, directory: LogDirectory, then: Callable[[], object] | None = None) -> None:
        """Write the offsets up to which the logs of a directory have been compacted; deleted logs are left out."""
        content = directory.render_cleaner_offsets()
        self.replicas.directories.write_checkpoint(directory, names.CLEANER_OFFSETS, content, then)


def _is_cleaned(replica: Replica) -> bool:
    """Whether a log is compacted here. That of a mirror has what its source's cleaner left."""
    config = replica.topic.config
    return config.compact and not config.is_mirror and replica.is_here
