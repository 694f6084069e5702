"""The compaction of one led partition's part in the store: the shell of `kpybroker.machines.remote_log.compacting`.

One pass at a time on a node, since each has a map of keys. Its work is done in the threads that copy, under their
quota; what it writes is counted as copied.

Invariant: nothing is carried out for a leader whose term is over; a pass frees what it has when its thread has ended.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kpybroker.hosts.remote_log.failure_words import words_of
from kpybroker.hosts.remote_log.figures import TopicTierFigures
from kpybroker.hosts.remote_log.metadata_topic import RemoteLogMetadataTopic
from kpybroker.hosts.remote_log.remote_storage import CopyLimits, CopyStopped, RemoteStorage
from kpybroker.hosts.remote_log.stored_cleaning import StoredCleaning, task_of
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.compacting import (
    AppendTogether,
    CleanedGroup,
    CleanNext,
    CopyCleaned,
    Effect,
    EndPass,
    StoreCompaction,
    StoredDirt,
    dirt_of,
    stored_parts,
)
from kpybroker.machines.remote_log.copying import AppendRecord, CopySettings, StopCopying
from kpybroker.machines.remote_log.local_log import LocalLog
from kpybroker.machines.remote_log.segments import RemoteLogSegment, RemoteLogSegmentUpdate
from kpybroker.runtime.io.scheduler import Scheduler, Submit
from kpystorage import names
from kpystorage.compaction.task import CleanerConfig
from kpywire.uuid import UUID_BYTES, random_uuid

log = logging.getLogger("kpybroker.tiered")


class CompactionSlot:
    """The right to compact, which one partition of a node has at a time."""

    def __init__(self) -> None:
        self._is_taken = False

    def take(self) -> bool:
        """Take it if it is free."""
        was_free, self._is_taken = not self._is_taken, True
        return was_free

    def give_back(self) -> None:
        """Let others take it."""
        self._is_taken = False


class CompactionParts(NamedTuple):
    """The parts of a node that compact what is in the store."""

    scheduler: Scheduler
    metadata: RemoteLogMetadataTopic
    storage: RemoteStorage
    copier: Submit
    copy_limits: Callable[[Callable[[], bool]], CopyLimits]
    cleaner_config: Callable[[], CleanerConfig | None]
    """None where the cleaner is off (``log.cleaner.enable``)."""
    slot: CompactionSlot
    random_bytes: Callable[[int], bytes]


class LedTerm(NamedTuple):
    """The present of a partition in one term of its leader; None for what cannot be used now."""

    leader: Callable[[], PartitionLeader | None]
    segments: Callable[[], RemoteSegments | None]
    times: Callable[[], tuple[int, int]]
    """Monotonic milliseconds, and the wall clock's."""


class LedCompaction:
    """The compaction of one led partition in one term."""

    def __init__(
        self, parts: CompactionParts, replica: Replica, term: LedTerm, settings: CopySettings, figures: TopicTierFigures
    ) -> None:
        topic = replica.topic
        self._parts = parts
        self._replica = replica
        self._term = term
        self._figures = figures
        self._machine = StoreCompaction(topic.id, topic.name, replica.index, settings)
        self._cleaning: StoredCleaning | None = None
        self._is_in_thread = self._is_over = self._is_measuring = False

    @property
    def last_error(self) -> str:
        """The reason why the last pass failed; empty if it did not."""
        return self._machine.last_error

    def stop(self) -> None:
        """End the work: this node leads no more, or it stops."""
        self._is_over = True
        self._carry_out(self._machine.stop())

    def look(self) -> None:
        """Give up what takes too long."""
        self._carry_out(self._machine.due(*self._term.times()))

    def begin(self, segments: RemoteSegments, log_now: LocalLog) -> Iterator[None]:
        """Begin a pass if one is worth it: the periodic work, in steps."""
        now_ms, wall_ms = self._term.times()
        if self._is_measuring or self._cleaning is not None or not self._machine.may_begin(now_ms):
            return
        self._is_measuring = True
        try:
            dirt = dirt_of((yield from stored_parts(segments, log_now)))
        finally:
            self._is_measuring = False
        leader, cleaner = self._term.leader(), self._parts.cleaner_config()
        if leader is None or cleaner is None or self._cleaning is not None or self._is_over:
            return
        config = leader.log.config
        is_worth_it = dirt.is_worth_it(config.min_cleanable_dirty_ratio, config.max_compaction_lag_ms, wall_ms)
        if is_worth_it and self._parts.slot.take():
            self._cleaning = self._new(leader, dirt, cleaner, wall_ms)
            self._carry_out(self._machine.begin())

    def _new(self, leader: PartitionLeader, dirt: StoredDirt, cleaner: CleanerConfig, wall_ms: int) -> StoredCleaning:
        found = leader.log
        unique = int.from_bytes(self._parts.random_bytes(UUID_BYTES), "big")
        folder = names.marked_directory(found.topic, found.partition, unique, names.DELETE_DIRECTORY)
        task = task_of(found, f"{found.directory.path}/{folder}", dirt, leader.high_watermark.offset)
        aborted = found.aborted_transactions(dirt.parts[0].start, dirt.end_offset)
        disk = found.directory.disk
        return StoredCleaning(self._parts.storage, disk, task, dirt.parts, aborted, cleaner, wall_ms)

    # What the machine asks for

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case CleanNext():
                    self._clean()
                case AppendRecord(RemoteLogSegment() | RemoteLogSegmentUpdate() as record):
                    self._parts.metadata.write(record, partial(self._announced, record.id.segment_id))
                case CopyCleaned(segment, _, deadline_ms):
                    self._copy(effect, segment, deadline_ms)
                case AppendTogether(records):
                    name = records[0].id.segment_id
                    self._parts.metadata.write_together(records, partial(self._replaced, name))
                case StopCopying():
                    self._stop_cleaning()
                case EndPass():
                    self._end()

    def _clean(self) -> None:
        cleaning = self._cleaning
        if cleaning is not None:
            self._is_in_thread = True
            self._parts.copier(partial(_next, cleaning, self._limits(cleaning)), self._cleaned)

    def _limits(self, cleaning: StoredCleaning) -> CopyLimits:
        return self._parts.copy_limits(lambda: cleaning.is_stopped)

    def _cleaned(self, group: CleanedGroup | None, error: BaseException | None) -> None:
        if self._has_ended():
            return
        now_ms, wall_ms = self._term.times()
        if error is not None:
            self._carry_out(self._machine.failed(None, self._failure(error), now_ms, wall_ms))
        elif group is None:
            self._carry_out(self._machine.ended())
        else:
            segment_id = random_uuid(self._parts.random_bytes(UUID_BYTES))
            self._carry_out(self._machine.cleaned(group, segment_id, now_ms, wall_ms))

    def _announced(self, name: bytes, refusal: str | None) -> None:
        if self._is_over:
            return
        if refusal is None:
            self._carry_out(self._machine.announced(name))
        else:
            self._carry_out(self._machine.failed(name, refusal, *self._term.times()))

    def _copy(self, effect: CopyCleaned, segment: RemoteLogSegment, deadline_ms: int) -> None:
        cleaning, scheduler = self._cleaning, self._parts.scheduler
        if cleaning is None:
            return
        self._figures.copies += 1
        self._is_in_thread = True
        scheduler.call_later(max(deadline_ms - scheduler.monotonic_ms(), 0) + 1, self.look)
        self._parts.copier(
            partial(_copy, cleaning, segment, effect.parts, self._limits(cleaning)), partial(self._copied, segment)
        )

    def _copied(self, segment: RemoteLogSegment, custom: bytes | None, error: BaseException | None) -> None:
        segments = self._term.segments()
        if self._has_ended():
            return
        now_ms, wall_ms = self._term.times()
        name = segment.id.segment_id
        if error is not None or segments is None:
            self._figures.copy_errors += 1
            reason = "the metadata of the store are not read" if error is None else self._failure(error)
            self._carry_out(self._machine.failed(name, reason, now_ms, wall_ms))
        else:
            self._figures.copied_bytes += segment.size_bytes
            self._carry_out(self._machine.objects_written(name, custom, segments, now_ms, wall_ms))

    def _replaced(self, name: bytes, refusal: str | None) -> None:
        if self._is_over:
            return
        if refusal is None:
            self._carry_out(self._machine.replaced(name))
        else:
            self._carry_out(self._machine.failed(name, refusal, *self._term.times()))

    def _failure(self, error: BaseException) -> str:
        words = words_of(error)
        log.warning("%s: what the store has was not compacted: %s", self._replica, words)
        return words

    # The end of a pass

    def _stop_cleaning(self) -> None:
        if self._cleaning is not None:
            self._cleaning.is_stopped = True

    def _end(self) -> None:
        """Free what the pass has, when its thread has ended."""
        self._stop_cleaning()
        if self._cleaning is not None and not self._is_in_thread:
            self._is_in_thread = True
            self._parts.copier(self._cleaning.end, self._freed)

    def _has_ended(self) -> bool:
        """Whether the pass was to end while its thread was at work; now it does."""
        self._is_in_thread = False
        if self._cleaning is not None and self._cleaning.is_stopped:
            self._end()
            return True
        return False

    def _freed(self, _result: Any, error: BaseException | None) -> None:
        if error is not None:
            log.warning("%s: the folder of a pass was not removed: %s", self._replica, words_of(error))
        self._is_in_thread = False
        self._cleaning = None
        self._parts.slot.give_back()


def _next(cleaning: StoredCleaning, limits: CopyLimits) -> CleanedGroup | None:
    """Runs in a thread."""
    if cleaning.is_stopped:
        raise CopyStopped("the pass was stopped")
    return cleaning.next(limits)


def _copy(cleaning: StoredCleaning, segment: RemoteLogSegment, parts: Any, limits: CopyLimits) -> bytes | None:
    """Runs in a thread."""
    return cleaning.copy(segment, parts, limits)
