"""A log as the decisions about tiering see it: its segments on the disk, its offsets, its topic's settings."""

from collections.abc import Sequence
from typing import NamedTuple

UNLIMITED = -1
AS_LOCAL_RETENTION = -1
AS_RETENTION = -2
UNBOUNDED = (1 << 63) - 1


class LocalSegment(NamedTuple):
    """A segment on the disk. The next one's base, or the log's end, is its end."""

    base_offset: int
    size_bytes: int
    max_timestamp_ms: int


class BlockingTransaction(NamedTuple):
    """The open transaction that holds back the last stable offset."""

    producer_id: int
    first_offset: int


class LocalLog(NamedTuple):
    """A log at one moment. The last of ``segments`` is the active one; ``epochs`` as in leader-epoch-checkpoint."""

    segments: Sequence[LocalSegment]
    log_start_offset: int
    local_log_start_offset: int
    end_offset: int
    high_watermark: int
    last_stable_offset: int
    epochs: Sequence[tuple[int, int]]
    transaction: BlockingTransaction | None = None
    clean_until: int = UNBOUNDED
    """The offset up to which this disk's cleaner has compacted the log, where it is compacted."""

    def next_base(self, index: int) -> int:
        """The offset after the last one of a segment."""
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else self.end_offset

    def only_local(self, highest_copied: int) -> list[LocalSegment]:
        """The segments that begin behind the last copied offset, the active one included
        (``onlyLocalLogSegmentsSize``)."""
        return [each for each in self.segments if each.base_offset > highest_copied]


class TierSettings(NamedTuple):
    """The settings of a topic, as they are configured: -1 and -2 are resolved by the properties.

    A topic whose copying is disabled (KIP-950) keeps on its disks what ``retention.*`` allows.
    """

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    local_retention_ms: int = AS_RETENTION
    local_retention_bytes: int = AS_RETENTION
    copy_lag_ms: int = 0
    copy_lag_bytes: int = AS_LOCAL_RETENTION
    is_copy_disabled: bool = False

    @property
    def local_ms(self) -> int:
        """The time that segments stay on the disk, -1 without a limit."""
        return self.retention_ms if self.local_retention_ms == AS_RETENTION else self.local_retention_ms

    @property
    def local_bytes(self) -> int:
        """The bytes that stay on the disk, -1 without a limit."""
        return self.retention_bytes if self.local_retention_bytes == AS_RETENTION else self.local_retention_bytes

    @property
    def lag_ms(self) -> int:
        """The age at which a segment is copied: 0 at once, -1 if age does not count (KIP-1241)."""
        return self.local_ms if self.copy_lag_ms == AS_LOCAL_RETENTION else self.copy_lag_ms

    @property
    def lag_bytes(self) -> int:
        """The newer bytes that a segment waits for: 0 at once, -1 if they do not count (KIP-1241)."""
        return self.local_bytes if self.copy_lag_bytes == AS_LOCAL_RETENTION else self.copy_lag_bytes
