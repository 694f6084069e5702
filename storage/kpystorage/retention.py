"""The choice of a log's oldest segments that are deleted (Kafka's UnifiedLog.deleteOldSegments). Pure.

Invariant: nothing at or above the high watermark is deleted, and the oldest segments are always deleted first.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from kpystorage.log_config import LogConfig


class Deletable(Protocol):
    """The facts about a segment that retention needs."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...


def expendable(
    segments: Sequence[Deletable],
    end_offset: int,
    local_log_start_offset: int,
    high_watermark: int,
    config: LogConfig,
    now_ms: int,
) -> int:
    """The number of oldest segments that may be deleted, the active one included if all may.

    First those wholly below the local log start, then, where ``cleanup.policy`` says ``delete``, those beyond
    ``retention.bytes`` and those whose records are all older than ``retention.ms``. A segment without any record is
    never deleted on its own account. Of a tiered log the latter depend on what the store has: none is expendable here.
    """
    count = len(segments)

    def upper_bound(number: int) -> int:
        return segments[number + 1].base_offset if number + 1 < count else end_offset

    def advance(gone: int, may_go: Callable[[int], bool]) -> int:
        while gone < count and high_watermark >= upper_bound(gone):
            if (gone + 1 == count and segments[gone].size == 0) or not may_go(gone):
                break
            gone += 1
        return gone

    is_by_age_and_size = config.cleanup_delete and not config.is_tiered
    gone = advance(0, lambda number: number + 1 < count and upper_bound(number) <= local_log_start_offset)
    if is_by_age_and_size and config.retention_bytes >= 0:
        spare_bytes = sum([segment.size for segment in segments[gone:]]) - config.retention_bytes

        def too_much(number: int) -> bool:
            nonlocal spare_bytes
            if spare_bytes < segments[number].size:
                return False
            spare_bytes -= segments[number].size
            return True

        gone = advance(gone, too_much)
    if is_by_age_and_size and config.retention_ms >= 0:
        gone = advance(gone, lambda number: now_ms - segments[number].largest_timestamp > config.retention_ms)
    return gone
