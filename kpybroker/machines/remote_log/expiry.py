"""The segments that may go: from the disk because the store has them, from the store because of retention.

Kafka's rules (``UnifiedLog.deletableSegments``, ``RLMExpirationTask``), with two deviations. A disk loses a segment
only if each of its records was found in a readable copy, where Kafka believes the highest copied offset. A copy that
no broker finishes does not end the walk over the segments, and is deleted when no copy may last that long.

Not here: carrying it out in the right order (`kpybroker.machines.remote_log.deleting`).
"""

from collections.abc import Generator, Iterable
from typing import NamedTuple

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.lineage import STEP_SEGMENTS, copied_until, counts, lineage, with_records
from kpybroker.machines.remote_log.local_log import LocalLog, LocalSegment, TierSettings
from kpybroker.machines.remote_log.segments import DELETING, FINISHED, STARTED, RemoteLogSegment

# From the disk


class LocalExpiry(NamedTuple):
    """The oldest segments that may be deleted from the disk; then the log there begins at ``local_log_start``."""

    segments: tuple[LocalSegment, ...]
    local_log_start: int
    log_start: int | None
    """The log's new start where nothing is copied any more (KIP-950); None where it stays."""
    rolls_active: bool
    """The active segment is past its time, too: it has to be closed, so that it is copied."""


def local_expiry(log: LocalLog, segments: RemoteSegments, settings: TierSettings, now_ms: int) -> LocalExpiry:
    """The segments that ``local.retention.ms`` and ``local.retention.bytes`` no longer keep on the disk.

    Where copying is disabled, ``retention.*`` decides, and a deleted segment is gone: the log start moves.
    """
    is_disabled = settings.is_copy_disabled
    kept_ms = settings.retention_ms if is_disabled else settings.local_ms
    kept_bytes = settings.retention_bytes if is_disabled else settings.local_bytes
    safe = _safe_until(log, segments, is_disabled=is_disabled)
    excess = sum(each.size_bytes for each in log.segments) - kept_bytes if kept_bytes >= 0 else -1
    count, closed = 0, log.segments[:-1]
    while count < len(closed) and log.next_base(count) <= safe:
        segment = closed[count]
        is_below_start = log.next_base(count) <= log.local_log_start_offset
        if not is_below_start and not _is_expired(segment, excess, kept_ms, now_ms):
            break
        excess -= segment.size_bytes
        count += 1
    base = log.segments[count].base_offset if count else log.local_log_start_offset
    start = max(log.local_log_start_offset, base)
    active = log.segments[-1] if log.segments else None
    rolls = (
        active is not None
        and active.size_bytes > 0
        and count == len(closed)
        and log.end_offset <= log.high_watermark
        and _is_expired(active, excess, kept_ms, now_ms)
    )
    moved = start if is_disabled and start > log.log_start_offset and count else None
    return LocalExpiry(tuple(closed[:count]), start, moved, rolls)


def _safe_until(log: LocalLog, segments: RemoteSegments, *, is_disabled: bool) -> int:
    """The offset up to which the disk may lose records: committed, and copied or below the log start."""
    if is_disabled:
        return log.high_watermark
    first = log.segments[0].base_offset if log.segments else log.local_log_start_offset
    return min(log.high_watermark, copied_until(segments, log.epochs, max(first, log.log_start_offset)))


def _is_expired(segment: LocalSegment, excess: int, kept_ms: int, now_ms: int) -> bool:
    """Whether a segment is too much or too old. -1 keeps without a limit."""
    return excess >= segment.size_bytes or (kept_ms >= 0 and now_ms - segment.max_timestamp_ms > kept_ms)


# From the store


class RemoteExpiry(NamedTuple):
    """The segments that are to be deleted from the store."""

    log_start: int | None
    """The log start moves here before anything of ``expired`` is deleted; None if it stays."""
    expired: tuple[RemoteLogSegment, ...]
    """The segments of the lineage that retention or the log start no longer keeps, oldest first."""
    removed: tuple[RemoteLogSegment, ...]
    """The segments that no reader of this log gets: deletions that began, copies without an end, lost lineages."""
    size_bytes: int
    """The bytes that retention counted: those of the lineage, and those that are only on the disk."""


def remote_expiry(
    log: LocalLog,
    segments: RemoteSegments,
    settings: TierSettings,
    *,
    copied_offset: int,
    now_ms: int,
    in_progress: bytes | None = None,
    overdue: frozenset[bytes] = frozenset(),
) -> Generator[None, None, RemoteExpiry]:
    """Walk the segments by epoch and offset, and stop at the first that is kept. In steps: there may be many.

    ``in_progress`` is the copy that this leader makes now; ``overdue`` are unfinished copies of others
    (`UnfinishedCopies`). ``now_ms`` is the wall clock.
    """
    epochs = with_records(log.epochs)
    size_bytes = sum(each.size_bytes for each in log.only_local(copied_offset))
    counted_to, last_bytes = -1, 0
    for number, each in enumerate(lineage(segments, log.end_offset, epochs)):
        # Those below the log start are being deleted. Counted, they would make retention delete as much again; so would
        # records that two leaders have copied, and those of a former leader's last copy that are on the disk, too.
        is_counted = each.end_offset <= counted_to or each.start_offset > copied_offset
        if each.end_offset >= log.log_start_offset and not is_counted:
            is_apart = each.start_offset > counted_to
            size_bytes += each.size_bytes if is_apart else max(0, each.size_bytes - last_bytes)
            counted_to, last_bytes = each.end_offset, each.size_bytes
        if number % STEP_SEGMENTS == 0:
            yield
    excess = size_bytes - settings.retention_bytes if settings.retention_bytes >= 0 else 0
    until_ms = now_ms - settings.retention_ms if settings.retention_ms >= 0 else -1
    expired: dict[bytes, RemoteLogSegment] = {}
    log_start = log.log_start_offset
    for number, segment in enumerate(_walk(segments, epochs)):
        if number % STEP_SEGMENTS == 0:
            yield
        name = segment.id.segment_id
        if name == in_progress:
            break
        if segment.state is not FINISHED or name in expired:
            continue
        if _is_below_start(segment, log.log_start_offset, epochs):
            expired[name] = segment
        elif counts(segment, log.end_offset, epochs):
            is_old = segment.max_timestamp_ms < until_ms
            is_too_much = excess > 0 and segment.size_bytes <= excess
            if segment.end_offset >= log.high_watermark or not (is_old or is_too_much):
                break
            excess = max(0, excess - segment.size_bytes)
            log_start = max(log_start, segment.next_offset)
            expired[name] = segment
    given_up: list[RemoteLogSegment] = []
    left: list[RemoteLogSegment] = []
    """Copies of which all epochs are older than the log's first, after an unclean election."""
    first = log.epochs[0][0] if log.epochs else None
    for number, each in enumerate(segments.all()):
        if number % STEP_SEGMENTS == 0:
            yield
        name = each.id.segment_id
        if each.state is DELETING or (each.state is STARTED and name in overdue):
            given_up.append(each)
        elif each.state is FINISHED and first is not None and each.leader_epochs[-1][0] < first and name not in expired:
            left.append(each)
    moved = log_start if log_start > log.log_start_offset else None
    return RemoteExpiry(moved, tuple(expired.values()), (*given_up, *left), size_bytes)


def everything(log: LocalLog, segments: RemoteSegments) -> RemoteExpiry:
    """The deletion of all that is in the store: ``remote.storage.enable`` is off, and ``remote.log.delete.on.disable``
    is on (KIP-950). The log then begins where it begins on the disk."""
    start = log.local_log_start_offset if log.local_log_start_offset > log.log_start_offset else None
    listed = sorted(segments.all(), key=lambda each: (each.start_offset, each.id.segment_id))
    return RemoteExpiry(start, tuple(listed), (), 0)


def _walk(segments: RemoteSegments, epochs: list[tuple[int, int]]) -> Iterable[RemoteLogSegment]:
    for epoch, _ in epochs:
        yield from segments.in_epoch(epoch)


def _is_below_start(segment: RemoteLogSegment, log_start: int, epochs: list[tuple[int, int]]) -> bool:
    first = epochs[0][0]
    return segment.end_offset < log_start and all(epoch <= first for epoch, _ in segment.leader_epochs)


class UnfinishedCopies:
    """SegmentCopies that began and have not ended, with the time when this node first saw each of them.

    The time is this node's own, so a clock that differs elsewhere deletes no copy that is still being made.
    """

    def __init__(self, wait_ms: int) -> None:
        """``wait_ms`` is longer than any copy may last, on every broker."""
        self._wait_ms = wait_ms
        self._seen: dict[bytes, int] = {}

    def overdue(self, segments: RemoteSegments, in_progress: bytes | None, now_ms: int) -> frozenset[bytes]:
        """The copies that no broker finishes any more. ``now_ms`` is monotonic."""
        before, self._seen = self._seen, {}
        if segments.unfinished <= (in_progress is not None):
            return frozenset()
        self._seen = {
            name: before.get(name, now_ms)
            for each in segments.all()
            if each.state is STARTED and (name := each.id.segment_id) != in_progress
        }
        return frozenset(name for name, since_ms in self._seen.items() if now_ms - since_ms >= self._wait_ms)
