"""The segments of a log, and what retention deletes next. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from kpystorage.log_config import LogConfig
from kpystorage.retention import Deletable, expendable


@dataclass(frozen=True, slots=True)
class RetentionDeletion:
    """The next deletion by retention from a log."""

    segments_now: int
    """The segments that the next check deletes."""
    bytes_now: int
    next_ms: int | None
    """The time at which the next segment becomes too old; None if no time makes it so."""
    line: str


def next_deletion(
    segments: Sequence[Deletable],
    end_offset: int,
    local_start: int,
    high_watermark: int,
    config: LogConfig,
    now_ms: int,
) -> RetentionDeletion:
    """The next deletion by retention from these segments."""
    gone = expendable(segments, end_offset, local_start, high_watermark, config, now_ms)
    size = sum(segment.size for segment in segments[:gone])
    next_ms = _next_ms(segments, gone, config)
    if gone:
        line = f"the next check deletes {gone} of {len(segments)} segments"
    elif not config.cleanup_delete:
        line = "nothing: cleanup.policy keeps the last record of each key"
    elif config.retention_ms < 0 and config.retention_bytes < 0:
        line = "nothing: retention.ms and retention.bytes are unlimited"
    elif not any(segment.size for segment in segments):
        line = "nothing: there are no records"
    elif next_ms is not None:
        line = "the oldest segment, once its last record is older than retention.ms"
    else:
        line = "the oldest segment, once the log is larger than retention.bytes"
    return RetentionDeletion(gone, size, next_ms, line)


def _next_ms(segments: Sequence[Deletable], gone: int, config: LogConfig) -> int | None:
    if not config.cleanup_delete or config.retention_ms < 0 or gone >= len(segments):
        return None
    segment = segments[gone]
    if segment.size == 0:
        return None
    return segment.largest_timestamp + config.retention_ms + 1
