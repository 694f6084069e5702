"""The configuration of a topic: the configs that a request may set, and the effective values for a partition of the
topic.

A value set on the topic overrides the broker configs it is a synonym of (``retention.ms`` overrides
``log.retention.ms`` and its coarser units); these override Kafka's default. Errors are worded as Kafka's ``LogConfig``
words them. Pure.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kpybroker.config.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS
from kpybroker.machines.config_def import ConfigError, ConfigValue
from kpybroker.machines.metadata import mirror_configs

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues
    from kpybroker.machines.partition.validation import ValidationConfig
    from kpybroker.machines.remote_log.local_log import TierSettings
    from kpystorage.log_config import LogConfig

# Broker attributes that hold the value of several broker configs together.
_OF_UNITS = {
    "retention.ms": "log_retention_ms",
    "segment.ms": "log_roll_ms",
    "segment.jitter.ms": "log_roll_jitter_ms",
    "flush.ms": "log_flush_interval_ms",
}


class TopicConfig:
    """The effective configs of one topic, typed. Shared by topics that set nothing; never changed once built.

    Sizes are bytes, times milliseconds; -1 is "no limit" for retention. ``overrides`` are the texts set on the topic.
    """

    __slots__ = (
        "compact",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "delete",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "follower_throttled_replicas",
        "index_interval_bytes",
        "leader_throttled_replicas",
        "log_append_time",
        "max_compaction_lag_ms",
        "max_decompressed_message_bytes",
        "max_message_bytes",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "min_insync_replicas",
        "overrides",
        "preallocate",
        "producer_id_expiration_ms",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "tier",
        "tiers_compacted",
        "values",
    )

    def __init__(
        self,
        values: Mapping[str, Any],
        overrides: Mapping[str, str],
        *,
        producer_id_expiration_ms: int,
        tiers_compacted: bool = False,
    ) -> None:
        """``tiers_compacted`` is ``kpybroker.remote.compacted.enable``."""
        self.values: Mapping[str, ConfigValue] = values
        self.overrides = overrides
        policies: tuple[str, ...] = values["cleanup.policy"]
        self.compact = "compact" in policies
        self.delete = "delete" in policies
        self.compression_type: str = values["compression.type"]
        self.compression_gzip_level: int = values["compression.gzip.level"]
        self.compression_lz4_level: int = values["compression.lz4.level"]
        self.compression_zstd_level: int = values["compression.zstd.level"]
        self.delete_retention_ms: int = values["delete.retention.ms"]
        self.file_delete_delay_ms: int = values["file.delete.delay.ms"]
        self.flush_messages: int = values["flush.messages"]
        self.flush_ms: int = values["flush.ms"]
        self.follower_throttled_replicas: tuple[str, ...] = values["follower.replication.throttled.replicas"]
        self.leader_throttled_replicas: tuple[str, ...] = values["leader.replication.throttled.replicas"]
        self.index_interval_bytes: int = values["index.interval.bytes"]
        self.log_append_time: bool = values["message.timestamp.type"] == "LogAppendTime"
        self.max_compaction_lag_ms: int = values["max.compaction.lag.ms"]
        self.max_decompressed_message_bytes: int = values["max.decompressed.message.bytes"]
        self.max_message_bytes: int = values["max.message.bytes"]
        self.message_timestamp_after_max_ms: int = values["message.timestamp.after.max.ms"]
        self.message_timestamp_before_max_ms: int = values["message.timestamp.before.max.ms"]
        self.min_cleanable_dirty_ratio: float = values["min.cleanable.dirty.ratio"]
        self.min_compaction_lag_ms: int = values["min.compaction.lag.ms"]
        self.min_insync_replicas: int = values["min.insync.replicas"]
        self.preallocate: bool = values["preallocate"]
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.retention_bytes: int = values["retention.bytes"]
        self.retention_ms: int = values["retention.ms"]
        self.segment_bytes: int = values["internal.segment.bytes"] or values["segment.bytes"]
        self.segment_index_bytes: int = values["segment.index.bytes"]
        self.segment_jitter_ms: int = values["segment.jitter.ms"]
        self.segment_ms: int = values["segment.ms"]
        self.tiers_compacted = tiers_compacted
        may_be_tiered = values["remote.storage.enable"] and (tiers_compacted or not self.compact)
        self.tier = _tier(values, is_retained=self.compact and not self.delete) if may_be_tiered else None
        """The settings of the part in the store; None for a topic that has all of it on disks. A compacted one has,
        unless compacted topics may be tiered, even if the broker's default made it compacted after it was tiered."""

    @property
    def is_mirror(self) -> bool:
        """Whether the topic is a mirror of another cluster's: clients do not write to it, and its source alone decides
        what is deleted or compacted."""
        return mirror_configs.is_mirror(self.overrides)

    @property
    def is_fed(self) -> bool:
        """Whether batches of its source are appended to it."""
        return mirror_configs.is_fed(self.overrides)

    @property
    def is_sealed(self) -> bool:
        """The topic takes no batches of this cluster's producers and coordinators."""
        return mirror_configs.is_sealed(self.overrides)

    @property
    def max_segment_ms(self) -> int:
        """The longest time for which a segment may stay active: with compaction, no longer than its records may stay
        uncompacted."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def compression_level(self) -> int | None:
        """The level for the codec that ``compression_type`` names; None if that codec has no levels or none is
        named."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    def log(self) -> "LogConfig":
        """The settings of this topic's logs."""
        from kpystorage.log_config import LogConfig

        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.max_segment_ms,
            segment_jitter_ms=self.segment_jitter_ms,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            max_decompressed_message_bytes=self.max_decompressed_message_bytes,
            preallocate=self.preallocate,
            retention_bytes=-1 if self.is_mirror else self.retention_bytes,
            retention_ms=-1 if self.is_mirror else self.retention_ms,
            cleanup_delete=self.delete,
            cleanup_compact=self.compact or self.is_mirror,  # gaps of the source are no losses
            file_delete_delay_ms=self.file_delete_delay_ms,
            flush_messages=self.flush_messages,
            flush_ms=self.flush_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            delete_retention_ms=self.delete_retention_ms,
            min_cleanable_dirty_ratio=self.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
            max_compaction_lag_ms=self.max_compaction_lag_ms,
            is_tiered=self.tier is not None,
        )

    def validation(self, *, is_internal: bool = False) -> "ValidationConfig":
        """The rules for records produced to this topic. A coordinator reads those of its topic on the event loop, so
        they inflate to little more than they may have."""
        from kpybroker.machines.partition.validation import BYTES_AT_ONCE, ValidationConfig

        return ValidationConfig(
            max_message_bytes=self.max_message_bytes,
            compacted=self.compact,
            log_append_time=self.log_append_time,
            before_max_ms=self.message_timestamp_before_max_ms,
            after_max_ms=self.message_timestamp_after_max_ms,
            compression_type=self.compression_type,
            compression_level=self.compression_level,
            segment_bytes=self.segment_bytes,
            max_decompressed_message_bytes=self.max_decompressed_message_bytes,
            max_inflated_bytes=max(BYTES_AT_ONCE, self.max_message_bytes) if is_internal else None,
        )


def _tier(values: Mapping[str, Any], *, is_retained: bool) -> "TierSettings":
    """The settings of a tiered topic. One that is only compacted (``is_retained``) keeps all that compaction leaves."""
    from kpybroker.machines.remote_log.local_log import UNLIMITED, TierSettings

    return TierSettings(
        retention_ms=UNLIMITED if is_retained else values["retention.ms"],
        retention_bytes=UNLIMITED if is_retained else values["retention.bytes"],
        local_retention_ms=values["local.retention.ms"],
        local_retention_bytes=values["local.retention.bytes"],
        copy_lag_ms=values["remote.copy.lag.ms"],
        copy_lag_bytes=values["remote.copy.lag.bytes"],
        is_copy_disabled=values["remote.log.copy.disable"],
    )


class NodeConfig(Protocol):
    """The configuration of a node, as those of topics need it."""

    @property
    def topic_defaults(self) -> TopicConfig: ...

    @property
    def is_in_zookeeper_mode(self) -> bool: ...

    def __getitem__(self, name: str) -> Any: ...


def broker_defaults(config: "BrokerValues") -> dict[str, ConfigValue]:
    """The value of every topic config for a topic that sets nothing (``KafkaConfig.extractLogConfigMap``)."""
    values: dict[str, ConfigValue] = {name: key.default for name, key in TOPIC_CONFIGS.items()}
    values.update((name, config.value(synonyms[0][0])) for name, synonyms in TOPIC_SYNONYMS.items())
    values.update((name, getattr(config, attribute)) for name, attribute in _OF_UNITS.items())
    return values


def effective(overrides: Mapping[str, str], config: NodeConfig) -> TopicConfig:
    """The effective config of a topic with these configs. Raises ConfigError if a value cannot be read (they were
    validated when set).

    Names that are not topic configs are left out: a newer broker may have written them.
    """
    defaults = config.topic_defaults
    if not overrides:
        return defaults
    values = dict(defaults.values)
    values.update((name, TOPIC_CONFIGS[name].parse(text)) for name, text in overrides.items() if name in TOPIC_CONFIGS)
    return TopicConfig(
        values,
        dict(overrides),
        producer_id_expiration_ms=defaults.producer_id_expiration_ms,
        tiers_compacted=defaults.tiers_compacted,
    )


def validate(overrides: Mapping[str, str], config: NodeConfig, existing: Mapping[str, str] | None = None) -> None:
    """Raise ConfigError if a topic cannot have these configs (``LogConfig.validate``); it has ``existing`` now."""
    for name in overrides:
        if name in TOPIC_CONFIGS:
            continue
        if not name.startswith(mirror_configs.PREFIX) or config.is_in_zookeeper_mode:
            raise ConfigError(f"Unknown topic config name: {name}")
        from kpybroker.config import mirrored_topics  # not of a plain start

        mirrored_topics.check(name, overrides)
    values = effective(overrides, config).values
    check_compaction_lag(values["min.compaction.lag.ms"], values["max.compaction.lag.ms"])
    if any(name.startswith("remote.") for name in (*overrides, *(existing or ()))):
        from kpybroker.config import tiering  # not of a plain start

        tiering.check_topic(
            values,
            existing or {},
            is_tiering_on=config[tiering.SYSTEM_ENABLE],
            in_zookeeper_mode=config.is_in_zookeeper_mode,
            tiers_compacted=config.topic_defaults.tiers_compacted,
        )


def check_compaction_lag(min_lag_ms: Any, max_lag_ms: Any) -> None:
    """Raise ConfigError if a record would have to be compacted before it may be."""
    if min_lag_ms > max_lag_ms:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({min_lag_ms}) > max.compaction.lag.ms ({max_lag_ms})"
        )
