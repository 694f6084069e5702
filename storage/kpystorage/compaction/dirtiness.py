"""The part of a log that can be compacted, and whether it is worth it (Kafka's LogCleanerManager and LogToClean). Pure.

A log is clean up to the offset that its last pass reached, dirty from there on. The active segment, records behind the
start of an open transaction and records younger than ``min.compaction.lag.ms`` are left alone, always by whole
segments.

Invariant: a pass ends at the beginning of a segment, the active one at the latest, and every transaction below it is
decided.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kpystorage.log_config import LogConfig
from kpystorage.retention import Deletable

_FOREVER_MS = (1 << 63) - 1


class SizedSegment(Deletable, Protocol):
    """The facts about a segment that are asked for."""

    @property
    def first_timestamp(self) -> int: ...


class LogBounds(NamedTuple):
    """The bounds of a log: where it starts and ends, and the offset up to which its transactions are decided."""

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int


class Dirt(NamedTuple):
    """The result that a pass over a log would have.

    Offsets are half-open: ``[first_dirty_offset, first_uncleanable_offset)``.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """The time by which its oldest dirty record has passed ``max.compaction.lag.ms``; 0 if it has not."""
    is_checkpoint_invalid: bool
    """Whether the checkpoint of the last pass does not fit the log, so that it must be rewritten."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """The dirty part of what a pass would read."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_worth_it(self, config: LogConfig) -> bool:
        """Whether the log is dirty enough, or its records have waited for too long (KIP-354)."""
        is_overdue = self.delay_ms > 0 and self.cleanable_bytes > 0
        return self.total_bytes > 0 and (is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def measure(
    segments: Sequence[SizedSegment], bounds: LogBounds, cleaned_to: int | None, config: LogConfig, now_ms: int
) -> Dirt:
    """Measure what there is to compact in the segments of a log, the last of which is active.

    ``cleaned_to`` is the checkpoint's offset of the last pass, None if it has none.
    """
    base_offsets = [segment.base_offset for segment in segments]
    first_dirty = bounds.log_start_offset if cleaned_to is None else cleaned_to
    is_invalid = not bounds.log_start_offset <= first_dirty <= bounds.log_end_offset
    if is_invalid:
        first_dirty = bounds.log_start_offset
    dirty = segments[_holding(base_offsets, first_dirty) : -1]
    uncleanable = min(
        bounds.last_stable_offset, base_offsets[-1], _first_too_young(dirty, config.min_compaction_lag_ms, now_ms)
    )
    last = _holding(base_offsets, max(first_dirty, uncleanable))
    first = min(_holding(base_offsets, first_dirty), last)
    return Dirt(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=base_offsets[last],
        clean_bytes=sum([segment.size for segment in segments[: bisect_left(base_offsets, first_dirty)]]),
        cleanable_bytes=sum([segment.size for segment in segments[first:last]]),
        delay_ms=_overdue_ms(dirty, config, now_ms),
        is_checkpoint_invalid=is_invalid,
    )


def _holding(base_offsets: Sequence[int], offset: int) -> int:
    """The number of the segment that holds an offset, or would hold it."""
    return max(bisect_right(base_offsets, offset) - 1, 0)


def _first_too_young(dirty: Sequence[SizedSegment], min_lag_ms: int, now_ms: int) -> int:
    if min_lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp > now_ms - min_lag_ms:
                return segment.base_offset
    return _FOREVER_MS


def _overdue_ms(dirty: Sequence[SizedSegment], config: LogConfig, now_ms: int) -> int:
    until_ms = now_ms - max(config.max_compaction_lag_ms, config.min_compaction_lag_ms)
    if until_ms <= 0:
        return 0
    oldest_ms = min([each.first_timestamp for each in dirty if each.first_timestamp > 0], default=until_ms)
    return max(until_ms - oldest_ms, 0)
