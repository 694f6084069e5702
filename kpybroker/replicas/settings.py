"""A topic's configuration as the parts of a partition need it: numbers for its logs, rules for what is produced."""

from kpybroker.config.topic import TopicConfig
from kpybroker.partition.validation import ValidationConfig
from kpystorage.log_config import LogConfig


def log_config(config: TopicConfig) -> LogConfig:
    """What the topic's logs are told."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.max_segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        preallocate=config.preallocate,
        retention_bytes=config.retention_bytes,
        retention_ms=config.retention_ms,
        cleanup_delete=config.delete,
        cleanup_compact=config.compact,
        file_delete_delay_ms=config.file_delete_delay_ms,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
    )


def validation_config(config: TopicConfig) -> ValidationConfig:
    """What a produced batch is checked against."""
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return ValidationConfig(
        max_message_bytes=config.max_message_bytes,
        compacted=config.compact,
        log_append_time=config.log_append_time,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        compression_type=config.compression_type,
        compression_level=levels.get(config.compression_type),
        segment_bytes=config.segment_bytes,
    )
