"""The leader's work on the part of a partition that is in the store: copies, expiry, deletions (Kafka: ``RLMCopyTask``,
``RLMExpirationTask``).

The machines decide; this carries out what they ask for, and feeds back how it ended. It lives for one term of a leader.

Invariant: nothing is carried out for a leader whose term is over; the next one begins with the committed metadata.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from kpybroker.hosts.remote_log.failure_words import words_of
from kpybroker.hosts.remote_log.figures import TierFigures, TierState
from kpybroker.hosts.remote_log.led_compaction import CompactionParts, LedCompaction, LedTerm
from kpybroker.hosts.remote_log.local_view import ClosedSegment, closed_segment, has_aborted_transactions, local_log
from kpybroker.hosts.remote_log.metadata_topic import RemoteLogMetadataTopic
from kpybroker.hosts.remote_log.remote_storage import CopyLimits, RemoteStorage
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.remote_log import copying, deleting, expiry, lineage
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.copying import CopyLag, CopySettings, SegmentCopies, Wait, Waiting, copy_lag
from kpybroker.machines.remote_log.deleting import Deletions
from kpybroker.machines.remote_log.expiry import UnfinishedCopies
from kpybroker.machines.remote_log.local_log import LocalLog, TierSettings
from kpybroker.machines.remote_log.segments import RemoteLogSegment, RemoteLogSegmentUpdate
from kpybroker.runtime.io.scheduler import Scheduler, Submit
from kpystorage.errors import DiskFailure, StorageError
from kpywire.uuid import UUID_BYTES, random_uuid

log = logging.getLogger("kpybroker.tiered")

RETRY_MS: Final = 1_000


class TierParts(NamedTuple):
    """The parts of a node that leaders of tiered partitions use."""

    scheduler: Scheduler
    replicas: Replicas
    metadata: RemoteLogMetadataTopic
    storage: RemoteStorage
    copier: Submit
    """The threads that copy (``remote.log.manager.copier.thread.pool.size``)."""
    deleter: Submit
    """The threads that delete (``remote.log.manager.expiration.thread.pool.size``)."""
    copy_settings: Callable[[], CopySettings]
    copy_limits: Callable[[Callable[[], bool]], CopyLimits]
    """The limits of a copy, with the question whether it was stopped."""
    figures: TierFigures
    is_current: Callable[[], bool]
    """Whether this node still hears of the cluster: one that is cut off may lead no more, and must not delete."""
    abandoned_after_ms: int
    """The time after which a copy of another broker counts as abandoned: longer than any copy may last."""
    rng: Random
    """The source of segment ids."""
    compaction: CompactionParts


class LedTier:
    """One partition that this node leads."""

    def __init__(self, parts: TierParts, replica: Replica, epoch: int) -> None:
        self.replica = replica
        self.epoch = epoch
        self.waiting: Waiting | None = None
        """The reason why no copy begins."""
        self.size_bytes = 0
        """The bytes that retention counts."""
        self.is_over = False
        topic = replica.topic
        self._parts = parts
        self._figures = parts.figures.of(topic.name)
        self._copies = SegmentCopies(topic.id, topic.name, replica.index, parts.copy_settings())
        self._deletions = Deletions(parts.copy_settings().broker_id)
        self._unfinished = UnfinishedCopies(parts.abandoned_after_ms)
        term = LedTerm(self._leader, self._segments, self._times)
        self._compaction = LedCompaction(parts.compaction, replica, term, parts.copy_settings(), self._figures)
        self._has_begun = self._is_beginning = False
        self._stopped_copies: set[bytes] = set()
        self._is_moving_start = False
        self._is_due = False
        self._may_have_gap = replica.topic.config.tier is not None and replica.topic.config.tier.is_copy_disabled
        """Whether the disk has lost, or loses, records that are not copied: copying was disabled in this term."""

    def __str__(self) -> str:
        return str(self.replica)

    @property
    def copied_offset(self) -> int:
        """The last offset that is in the store; -1 if there is none, or if that is not known yet."""
        return self._copies.copied.offset

    @property
    def last_error(self) -> str:
        """The reason of the last failure of a copy, a deletion or a compaction; empty since the last success."""
        return self._copies.last_error or self._deletions.last_error or self._compaction.last_error

    @property
    def fails_to_copy(self) -> bool:
        """Whether the last copy failed: the disk loses nothing meanwhile."""
        return self._copies.failures > 0

    @property
    def is_begun(self) -> bool:
        """Whether the metadata of the store are read, so that `copied_offset` is known."""
        return self._has_begun

    def state(self) -> TierState | None:
        """The state for people; None if the log cannot be used."""
        log_now, segments, waiting = self._log(), self._segments(), self.waiting
        if log_now is None:
            return None
        deletions = self._deletions.waiting
        return TierState(
            self.replica.topic.name,
            self.replica.index,
            log_now.log_start_offset,
            log_now.local_log_start_offset,
            log_now.end_offset,
            self.copied_offset,
            sum(each.size_bytes for each in log_now.segments),
            0 if segments is None else segments.all_bytes,
            0 if segments is None else len(segments),
            copy_lag(log_now, self.copied_offset),
            CopyLag(sum(each.size_bytes for each in deletions), len(deletions)),
            None if waiting is None else waiting.wait,
            "" if waiting is None else waiting.reason,
            None if waiting is None else waiting.until_ms,
            self.last_error,
            0 if segments is None else segments.unfinished,
            is_ready=segments is not None,
        )

    def stop(self) -> None:
        """End the work: this node leads no more, or it stops."""
        self.is_over = True
        self._carry_out(self._copies.stop())
        self._compaction.stop()

    # Turns

    def soon(self) -> None:
        """Look again in the next turn."""
        if not self._is_due and not self.is_over:
            self._is_due = True
            self._parts.scheduler.call_soon(self._due)

    def _due(self) -> None:
        self._is_due = False
        self.look()

    def look(self) -> None:
        """Begin whatever is due: the periodic work, and the next step after each event."""
        segments = self._segments()
        log_now = self._log()
        if self.is_over or log_now is None:
            return
        if segments is None:
            self.waiting = Waiting(Wait.NOTHING, "the metadata of the store are not read yet")
            return
        try:
            self._look(segments, log_now)
        except DiskFailure as failure:
            self._parts.replicas.directory_failed(failure)

    def _look(self, segments: RemoteSegments, log_now: LocalLog) -> None:
        if not self._has_begun:
            if not self._is_beginning:
                self._is_beginning = True
                of = self.replica
                self._parts.metadata.catch_up(of.topic.id, of.index, self._caught_up)
            return
        now_ms, wall_ms = self._times()
        tier = self.replica.topic.config.tier
        self._may_have_gap |= tier is not None and tier.is_copy_disabled
        self._carry_out(self._copies.due(now_ms, wall_ms))
        self._carry_out(self._deletions.due(now_ms, wall_ms))
        if tier is None:
            self.waiting = Waiting(Wait.DISABLED, "remote.storage.enable is off")
            return
        if self._rolls_active(segments, log_now, tier, wall_ms):
            log_now = self._log() or log_now
        self.waiting = self._copies.why_waiting(log_now, tier, now_ms, wall_ms)
        if self.waiting is None:
            self._carry_out(
                self._copies.begin(
                    log_now,
                    tier,
                    segment_id=random_uuid(self._parts.rng.randbytes(UUID_BYTES)),
                    now_ms=now_ms,
                    wall_ms=wall_ms,
                    is_transaction_index_empty=self._has_no_aborted(log_now, tier, wall_ms),
                )
            )
            self.waiting = self._copies.why_waiting(log_now, tier, now_ms, wall_ms)

    def _caught_up(self) -> None:
        """All records of the leader before are known."""
        segments, log_now = self._segments(), self._log()
        if self.is_over:
            return
        if segments is None or log_now is None:
            self._is_beginning = False
            return
        self._parts.scheduler.in_pieces(self._begin(segments, log_now))

    def _begin(self, segments: RemoteSegments, log_now: LocalLog) -> Iterator[None]:
        """Take over from the leader before: what is copied, and where the log begins."""
        of_log = log_now.end_offset, log_now.epochs, log_now.log_start_offset, log_now.local_log_start_offset
        if len(segments):
            self._copies.copied = yield from lineage.copied_without_gap(segments, *of_log)
        self._has_begun = True
        yield from self._close_gap(segments, log_now)
        self.soon()

    def _close_gap(self, segments: RemoteSegments, log_now: LocalLog) -> Iterator[None]:
        """Move the log start behind records that are neither in the store nor on the disk."""
        if log_now.log_start_offset < log_now.local_log_start_offset:
            of_log = log_now.end_offset, log_now.epochs, log_now.log_start_offset, log_now.local_log_start_offset
            start = yield from lineage.log_start(segments, *of_log)
            if start > log_now.log_start_offset:
                self._move_log_start(start)

    def expire(self) -> Iterator[None]:
        """Begin the deletion of what retention no longer keeps in the store: the periodic work, in steps."""
        segments, log_now = self._segments(), self._log()
        if segments is None or log_now is None or not self._has_begun or not self._parts.is_current():
            return
        tier, name = self.replica.topic.config.tier, self._name_in_progress
        now_ms, wall_ms = self._times()
        if tier is None and self.replica.topic.config.values["remote.storage.enable"]:
            return  # a compacted topic, which is not tiered here: it may be elsewhere
        if tier is None:
            expired = expiry.everything(log_now, segments)
        else:
            if self._may_have_gap:
                self._may_have_gap = tier.is_copy_disabled
                yield from self._close_gap(segments, log_now)
            expired = yield from expiry.remote_expiry(
                log_now,
                segments,
                tier,
                copied_offset=self.copied_offset,
                now_ms=wall_ms,
                in_progress=name,
                overdue=self._unfinished.overdue(segments, name, now_ms),
            )
        leader = self._leader()
        if leader is not None and name == self._name_in_progress:
            self.size_bytes = expired.size_bytes
            self._carry_out(self._deletions.begin(expired, leader.log.log_start_offset, *self._times()))

    def compact(self) -> Iterator[None]:
        """Begin the compaction of what is in the store, if that is worth it: the periodic work, in steps."""
        config = self.replica.topic.config
        if not config.compact or config.tier is None or config.tier.is_copy_disabled:
            return
        segments, log_now = self._segments(), self._log()
        if segments is not None and log_now is not None and self._has_begun and self._parts.is_current():
            yield from self._compaction.begin(segments, log_now)

    @property
    def _name_in_progress(self) -> bytes | None:
        in_progress = self._copies.in_progress
        return None if in_progress is None else in_progress.id.segment_id

    def _rolls_active(self, segments: RemoteSegments, log_now: LocalLog, tier: TierSettings, wall_ms: int) -> bool:
        """Close the active segment if it is past its time, so that it is copied."""
        leader = self._leader()
        if leader is None or not expiry.local_expiry(log_now, segments, tier, wall_ms).rolls_active:
            return False
        with leader.log.directory.failing():
            leader.log.roll(wall_ms)
        return True

    def _has_no_aborted(self, log_now: LocalLog, tier: TierSettings, wall_ms: int) -> bool:
        leader = self._leader()
        following = copying.candidates(log_now, self._copies.from_offset(log_now), tier, wall_ms)
        if leader is None or not following:
            return False
        return not has_aborted_transactions(leader.log, following[0].base_offset)

    # What the machines ask for

    def _carry_out(self, effects: Iterable[copying.Effect | deleting.Effect]) -> None:
        for effect in effects:
            match effect:
                case copying.AppendRecord(record):
                    self._parts.metadata.write(record, partial(self._written, record))
                case copying.CopyObjects(segment, deadline_ms):
                    self._copy(segment, deadline_ms)
                case copying.StopCopying(segment_id):
                    self._stopped_copies.add(segment_id)
                case deleting.MoveLogStart(offset):
                    self._move_log_start(offset)
                case deleting.DeleteObjects(segment):
                    self._figures.deletes += 1
                    self._parts.deleter(partial(self._parts.storage.delete, segment), partial(self._deleted, segment))

    def _written(self, record: Any, refusal: str | None) -> None:
        """A record is committed, or certainly not in the log."""
        if self.is_over:
            return
        name = record.id.segment_id
        if refusal is not None:
            now_ms, wall_ms = self._times()
            log.warning("%s: a record about the segment at the store was refused: %s", self, refusal)
            effects: list[Any] = list(self._copies.failed(name, refusal, now_ms, wall_ms))
            self._deletions.failed(name, refusal, now_ms)
        else:
            effects = list(self._copies.committed(record))
            if isinstance(record, RemoteLogSegmentUpdate):
                effects += self._deletions.committed(record)
        self._carry_out(effects)
        self.soon()

    def _copy(self, segment: RemoteLogSegment, deadline_ms: int) -> None:
        leader, name, scheduler = self._leader(), segment.id.segment_id, self._parts.scheduler
        if leader is None:
            return
        try:
            closed = closed_segment(leader.log, segment.start_offset)
        except DiskFailure as failure:
            self._parts.replicas.directory_failed(failure)
            return
        except (StorageError, ValueError) as error:
            self._copied(segment, None, error)
            return
        if (closed.next_offset, len(closed.log)) != (segment.next_offset, segment.size_bytes):
            self._copied(segment, None, ValueError("the cleaner has replaced it since its copy was announced"))
            return
        limits = self._parts.copy_limits(lambda: name in self._stopped_copies)
        self._figures.copies += 1
        scheduler.call_later(max(deadline_ms - scheduler.monotonic_ms(), 0) + 1, self.soon)
        work = partial(_copy, self._parts.storage, segment, closed, limits)
        self._parts.copier(work, partial(self._copied, segment))

    def _copied(self, segment: RemoteLogSegment, custom: bytes | None, error: BaseException | None) -> None:
        name = segment.id.segment_id
        was_stopped = name in self._stopped_copies
        self._stopped_copies.discard(name)
        if self.is_over:
            return
        now_ms, wall_ms = self._times()
        if error is None:
            self._figures.copied_bytes += segment.size_bytes
            self._carry_out(self._copies.objects_written(name, custom, now_ms, wall_ms))
            return
        self._figures.copy_errors += 1
        if not was_stopped:
            log.warning("%s: the segment at offset %d was not copied: %s", self, segment.start_offset, words_of(error))
        self._carry_out(self._copies.failed(name, words_of(error), now_ms, wall_ms))
        self._later()

    def _deleted(self, segment: RemoteLogSegment, _result: None, error: BaseException | None) -> None:
        if self.is_over:
            return
        now_ms, wall_ms = self._times()
        if error is None:
            self._carry_out(self._deletions.objects_deleted(segment.id.segment_id, wall_ms))
        else:
            words = words_of(error)
            self._figures.delete_errors += 1
            log.warning("%s: the segment at offset %d was not deleted: %s", self, segment.start_offset, words)
            self._deletions.failed(segment.id.segment_id, words, now_ms)
            self._later()

    def _later(self) -> None:
        """Look again when the pause after a failure is over."""
        log_now, tier = self._log(), self.replica.topic.config.tier
        waiting = None if log_now is None or tier is None else self._copies.why_waiting(log_now, tier, *self._times())
        now_ms = self._parts.scheduler.monotonic_ms()
        until_ms = now_ms + RETRY_MS if waiting is None or waiting.until_ms is None else waiting.until_ms
        self._parts.scheduler.call_later(max(until_ms - now_ms, 0.0) + 1, self.soon)

    def _move_log_start(self, offset: int) -> None:
        if not self._is_moving_start:
            self._is_moving_start = True
            self._parts.replicas.move_log_start(self.replica, offset, self._start_moved)

    def _start_moved(self) -> None:
        self._is_moving_start = False
        self.soon()

    # The present

    def _times(self) -> tuple[int, int]:
        return int(self._parts.scheduler.monotonic_ms()), self._parts.scheduler.now_ms()

    def _segments(self) -> RemoteSegments | None:
        return self._parts.metadata.segments_of(self.replica.topic.id, self.replica.index)

    def _leader(self) -> PartitionLeader | None:
        """The leader's role; None if this is not its term, or its log cannot be used."""
        replica = self.replica
        if self.is_over or not replica.is_led_here or replica.partition.leader_epoch != self.epoch:
            return None
        try:
            return replica.led()
        except KafkaError:
            return None
        except DiskFailure as failure:
            self._parts.replicas.directory_failed(failure)
            return None

    def _log(self) -> LocalLog | None:
        leader = self._leader()
        return None if leader is None else local_log(leader.log, leader)


def _copy(storage: RemoteStorage, segment: RemoteLogSegment, closed: ClosedSegment, limits: CopyLimits) -> bytes | None:
    """Runs in a thread."""
    return storage.copy(segment, closed.files(), limits)
