"""The leader's copies of one partition: which segment is next, how far the present copy is, why it waits.

One segment at a time, in the order of offsets: COPY_SEGMENT_STARTED is committed, the objects are written,
COPY_SEGMENT_FINISHED is committed. Each try has a new segment id, and a deadline; after a failure the objects of the
try are deleted. (Kafka: ``RLMCopyTask``; it has no deadline and tells no reason.)

Invariants: the copied offset moves only with a committed COPY_SEGMENT_FINISHED; every try ends in exactly one of
COPY_SEGMENT_FINISHED and DELETE_SEGMENT_STARTED.
"""

from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from kpybroker.machines.remote_log.lineage import NOTHING_COPIED, CopiedOffset
from kpybroker.machines.remote_log.local_log import LocalLog, LocalSegment, TierSettings
from kpybroker.machines.remote_log.segments import (
    DELETING,
    FINISHED,
    STARTED,
    Record,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentUpdate,
)


class CopyCandidate(NamedTuple):
    """A closed segment that may be copied now."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int


class Wait(Enum):
    """The reasons why no segment is copied."""

    NOTHING = "everything is copied except the active segment"
    COPYING = "a segment is being copied"
    DISABLED = "copying is disabled (remote.log.copy.disable)"
    TRANSACTION = "waits for a transaction"
    REPLICAS = "waits for replicas"
    LAG = "a lag is configured"
    CLEANER = "waits for the cleaner"
    FAILED = "the last copy failed"
    NO_EPOCHS = "the log has no leader epochs for the segment"


class Waiting(NamedTuple):
    """Why no copy begins, in words that a person reads; ``until_ms`` if time alone ends it."""

    wait: Wait
    reason: str
    until_ms: int | None = None


class CopyLag(NamedTuple):
    """The closed segments that are not copied yet (RemoteCopyLagBytes, RemoteCopyLagSegments)."""

    bytes: int
    segments: int


def copy_lag(log: LocalLog, copied_offset: int) -> CopyLag:
    """The lag behind the active segment."""
    waiting = log.only_local(copied_offset)
    active_bytes = log.segments[-1].size_bytes if log.segments else 0
    return CopyLag(max(0, sum(each.size_bytes for each in waiting) - active_bytes), max(0, len(waiting) - 1))


def candidates(log: LocalLog, from_offset: int, settings: TierSettings, now_ms: int) -> list[CopyCandidate]:
    """The closed segments from the one with ``from_offset`` on that may be copied now, in order.

    The successor of each begins at or below the last stable offset, so an open transaction ends the list. So does a
    segment that the configured lag holds back, or, of a compacted log, one that the cleaner has not passed.
    """
    tail = log.segments[_index_of(log, from_offset) :]
    newer_bytes = sum(each.size_bytes for each in tail)
    found: list[CopyCandidate] = []
    for segment, successor in pairwise(tail):
        newer_bytes -= segment.size_bytes
        is_stable = successor.base_offset <= log.last_stable_offset
        is_clean = successor.base_offset <= log.clean_until
        if not is_stable or not is_clean or not _is_due(segment, settings, newer_bytes, now_ms):
            break
        found.append(
            CopyCandidate(segment.base_offset, successor.base_offset, segment.size_bytes, segment.max_timestamp_ms)
        )
    return found


def _index_of(log: LocalLog, offset: int) -> int:
    """The segment that has an offset, or the first one."""
    return max((at for at, each in enumerate(log.segments) if each.base_offset <= offset), default=0)


def _is_due(segment: LocalSegment, settings: TierSettings, newer_bytes: int, now_ms: int) -> bool:
    """Whether a segment is old enough, or far enough behind, to be copied (KIP-1241)."""
    lag_ms, lag_bytes = settings.lag_ms, settings.lag_bytes
    if lag_ms == 0 or lag_bytes == 0:
        return True
    age_ms = now_ms - segment.max_timestamp_ms
    return (lag_ms > 0 and (age_ms < 0 or age_ms >= lag_ms)) or 0 < lag_bytes <= newer_bytes


def epochs_between(log: LocalLog, base_offset: int, next_offset: int) -> tuple[tuple[int, int], ...]:
    """The epochs of a segment's records, each with its first offset there."""
    epochs = log.epochs
    ends = [start for _, start in epochs[1:]] + [next_offset]
    cut = [(epoch, max(start, base_offset), end) for (epoch, start), end in zip(epochs, ends, strict=True)]
    return tuple((epoch, start) for epoch, start, end in cut if start < min(end, next_offset))


# One try


class CopyStage(Enum):
    """The stages of a try. A record that is appended counts when it is committed."""

    ANNOUNCING = 0
    """COPY_SEGMENT_STARTED is appended."""
    COPYING = 1
    """The objects are written."""
    FINISHING = 2
    """COPY_SEGMENT_FINISHED is appended: its outcome is open until it is committed or refused."""


class AppendRecord(NamedTuple):
    """Append a record to ``__remote_log_metadata`` and say when it is committed."""

    record: Record


class CopyObjects(NamedTuple):
    """Write the objects of a segment; the answer is `SegmentCopies.copied` or `SegmentCopies.failed`."""

    segment: RemoteLogSegment
    deadline_ms: int


class StopCopying(NamedTuple):
    """End the writing of a segment's objects: its deadline has passed, or this node leads no more."""

    segment_id: bytes


Effect = AppendRecord | CopyObjects | StopCopying


class CopySettings(NamedTuple):
    """The limits of a try."""

    broker_id: int
    deadline_ms: int = 600_000
    retry_ms: int = 1_000
    max_retry_ms: int = 300_000
    max_custom_metadata_bytes: int = 128


class _Try:
    __slots__ = ("deadline_ms", "segment", "stage")

    def __init__(self, segment: RemoteLogSegment, deadline_ms: int) -> None:
        self.segment = segment
        self.deadline_ms = deadline_ms
        self.stage = CopyStage.ANNOUNCING


class SegmentCopies:
    """The copies of one leader in one epoch. ``copied`` is the last offset whose COPY_SEGMENT_FINISHED is committed."""

    def __init__(self, topic_id: bytes, topic: str, partition: int, settings: CopySettings) -> None:
        self._name = (topic_id, topic, partition)
        self._settings = settings
        self._try: _Try | None = None
        self.copied = NOTHING_COPIED
        self.failures = 0
        """The tries that failed since the last success."""
        self.last_error = ""
        self._retry_at_ms = 0

    @property
    def in_progress(self) -> RemoteLogSegment | None:
        """The segment that is being copied."""
        return None if self._try is None else self._try.segment

    def from_offset(self, log: LocalLog) -> int:
        """The offset that is to be copied next."""
        return max(self.copied.offset + 1, log.log_start_offset)

    # The next copy

    def begin(
        self,
        log: LocalLog,
        settings: TierSettings,
        *,
        segment_id: bytes,
        now_ms: int,
        wall_ms: int,
        is_transaction_index_empty: bool = False,
    ) -> list[Effect]:
        """Begin the next copy if one may begin. ``segment_id`` has never been used. ``wall_ms`` is the wall clock, by
        which records have their age."""
        if self.why_waiting(log, settings, now_ms, wall_ms) is not None:
            return []
        candidate = candidates(log, self.from_offset(log), settings, wall_ms)[0]
        segment = RemoteLogSegment(
            RemoteLogSegmentId(*self._name, segment_id),
            candidate.base_offset,
            candidate.next_offset - 1,
            self._settings.broker_id,
            candidate.max_timestamp_ms,
            wall_ms,
            epochs_between(log, candidate.base_offset, candidate.next_offset),
            candidate.size_bytes,
            None,
            STARTED,
            is_transaction_index_empty,
        )
        self._try = _Try(segment, now_ms + self._settings.deadline_ms)
        return [AppendRecord(segment)]

    def why_waiting(self, log: LocalLog, settings: TierSettings, now_ms: int, wall_ms: int) -> Waiting | None:
        """The reason why no copy begins now; None if one may."""
        if self._try is not None:
            segment = self._try.segment
            reason = f"is copying the segment at offset {segment.start_offset} ({segment.size_bytes} bytes)"
            return Waiting(Wait.COPYING, reason, self._try.deadline_ms)
        if settings.is_copy_disabled:
            return Waiting(Wait.DISABLED, Wait.DISABLED.value)
        from_offset = self.from_offset(log)
        at = _index_of(log, from_offset)
        if at + 1 >= len(log.segments):
            return Waiting(Wait.NOTHING, Wait.NOTHING.value)
        if log.next_base(at) > log.last_stable_offset:
            return _waiting_for_stability(log)
        if not epochs_between(log, log.segments[at].base_offset, log.next_base(at)):
            return Waiting(Wait.NO_EPOCHS, Wait.NO_EPOCHS.value)
        if log.next_base(at) > log.clean_until:
            return Waiting(Wait.CLEANER, f"waits for the cleaner, which has compacted the log up to {log.clean_until}")
        if not candidates(log, from_offset, settings, wall_ms):
            return _waiting_for_lag(log.segments[at], settings, now_ms, wall_ms)
        if now_ms < self._retry_at_ms:
            reason = f"copy failed: {self.last_error} ({self.failures} times)"
            return Waiting(Wait.FAILED, reason, self._retry_at_ms)
        return None

    # The present copy

    def committed(self, record: RemoteLogSegment | RemoteLogSegmentUpdate) -> list[Effect]:
        """A record that this asked to append is committed."""
        now = self._of(record.id.segment_id)
        if now is None:
            return []
        if record.state is STARTED and now.stage is CopyStage.ANNOUNCING:
            now.stage = CopyStage.COPYING
            return [CopyObjects(now.segment, now.deadline_ms)]
        if record.state is FINISHED and now.stage is CopyStage.FINISHING:
            self.copied = CopiedOffset(now.segment.end_offset, now.segment.leader_epochs[-1][0])
            self._try, self.failures, self.last_error = None, 0, ""
        return []

    def objects_written(
        self, segment_id: bytes, custom_metadata: bytes | None, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """The objects of the segment are complete and durable."""
        now = self._of(segment_id)
        if now is None or now.stage is not CopyStage.COPYING:
            return []
        size, limit = len(custom_metadata or b""), self._settings.max_custom_metadata_bytes
        if size > limit:
            reason = f"the custom metadata have {size} bytes, remote.log.metadata.custom.metadata.max.bytes is {limit}"
            return self._fail(now, reason, now_ms, wall_ms)
        now.stage = CopyStage.FINISHING
        now.segment = now.segment._replace(custom_metadata=custom_metadata)
        return [AppendRecord(now.segment.update(FINISHED, self._settings.broker_id, wall_ms))]

    def failed(self, segment_id: bytes, reason: str, now_ms: int, wall_ms: int) -> list[Effect]:
        """The copy failed, or a record of it was refused: the try is over, and its objects are to be deleted.

        A refused COPY_SEGMENT_FINISHED is certainly not in the log; a shell that does not know says nothing."""
        now = self._of(segment_id)
        return [] if now is None else self._fail(now, reason, now_ms, wall_ms)

    def due(self, now_ms: int, wall_ms: int) -> list[Effect]:
        """Give up a copy whose deadline has passed. A COPY_SEGMENT_FINISHED that is under way is waited for."""
        now = self._try
        if now is None or now.stage is not CopyStage.COPYING or now_ms < now.deadline_ms:
            return []
        reason = f"not complete after {self._settings.deadline_ms} ms"
        return [StopCopying(now.segment.id.segment_id), *self._fail(now, reason, now_ms, wall_ms)]

    def stop(self) -> list[Effect]:
        """This node leads no more: the next leader cleans up (`kpybroker.machines.remote_log.expiry`)."""
        now, self._try = self._try, None
        return [] if now is None else [StopCopying(now.segment.id.segment_id)]

    def _of(self, segment_id: bytes) -> _Try | None:
        return self._try if self._try is not None and self._try.segment.id.segment_id == segment_id else None

    def _fail(self, now: _Try, reason: str, now_ms: int, wall_ms: int) -> list[Effect]:
        self._try = None
        self.failures += 1
        self.last_error = reason
        pause_ms = self._settings.retry_ms << min(self.failures - 1, 30)
        self._retry_at_ms = now_ms + min(pause_ms, self._settings.max_retry_ms)
        if now.stage is CopyStage.ANNOUNCING:
            return []  # no record, so no objects
        return [AppendRecord(now.segment.update(DELETING, self._settings.broker_id, wall_ms))]


def _waiting_for_stability(log: LocalLog) -> Waiting:
    transaction = log.transaction
    if log.last_stable_offset < log.high_watermark and transaction is not None:
        reason = (
            f"waits for the transaction of producer {transaction.producer_id} since offset {transaction.first_offset}"
        )
        return Waiting(Wait.TRANSACTION, reason)
    return Waiting(Wait.REPLICAS, f"waits for replicas to have the records from offset {log.high_watermark} on")


def _waiting_for_lag(segment: LocalSegment, settings: TierSettings, now_ms: int, wall_ms: int) -> Waiting:
    lags = []
    until_ms = None
    if settings.lag_ms > 0:
        lags.append(_duration(settings.lag_ms))
        until_ms = now_ms + segment.max_timestamp_ms + settings.lag_ms - wall_ms
    if settings.lag_bytes > 0:
        lags.append(f"{settings.lag_bytes} bytes")
    if not lags:
        return Waiting(Wait.LAG, "the lag is the local retention, which has no limit")
    return Waiting(Wait.LAG, f"a lag of {' or '.join(lags)} is configured", until_ms)


def _duration(ms: int) -> str:
    """A time in the largest unit that needs no fraction, such as 1 h."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
    return next(f"{ms // size} {unit}" for unit, size in units if ms % size == 0)
