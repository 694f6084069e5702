"""The part of a topic's configuration for its logs, as numbers. Names and defaults are Kafka's topic configs."""

from typing import NamedTuple

_MAX_LONG = (1 << 63) - 1


class LogConfig(NamedTuple):
    """The configuration of one log. Replace it as a whole (``log.configure``), never in place."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    max_decompressed_message_bytes: int = (1 << 31) - 9
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _MAX_LONG
    flush_ms: int = _MAX_LONG
    producer_id_expiration_ms: int = 86_400_000
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _MAX_LONG
    is_tiered: bool = False
    """Whether a store has the beginning of the log: what is gone from this disk is not gone for readers (KIP-405)."""
