"""Every config of a topic, and the broker configs its default comes from, the first one set winning.

Generated from Apache Kafka's definitions by oracle.render_configs; do not edit. Texts are in documentation.json.
"""

from collections.abc import Mapping

from kpybroker.config.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    MEDIUM,
    STRING,
    ConfigKey,
    Definitions,
    define,
)
from kpybroker.config.validators import GzipLevel, ThrottledReplicas, at_least, between, list_of, one_of

TOPIC_CONFIGS: Definitions = define(
    (
        ConfigKey("cleanup.policy", LIST, ("delete",), MEDIUM, list_of("compact", "delete")),
        ConfigKey("compression.gzip.level", INT, -1, MEDIUM, GzipLevel()),
        ConfigKey("compression.lz4.level", INT, 9, MEDIUM, between(1, 17)),
        ConfigKey(
            "compression.type",
            STRING,
            "producer",
            MEDIUM,
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        ConfigKey("compression.zstd.level", INT, 3, MEDIUM, between(-131_072, 22)),
        ConfigKey("delete.retention.ms", LONG, 86_400_000, MEDIUM, at_least(0)),
        ConfigKey("file.delete.delay.ms", LONG, 60_000, MEDIUM, at_least(0)),
        ConfigKey("flush.messages", LONG, LONG_MAX, MEDIUM, at_least(1)),
        ConfigKey("flush.ms", LONG, LONG_MAX, MEDIUM, at_least(0)),
        ConfigKey("follower.replication.throttled.replicas", LIST, (), MEDIUM, ThrottledReplicas()),
        ConfigKey("index.interval.bytes", INT, 4_096, MEDIUM, at_least(0)),
        ConfigKey("internal.segment.bytes", INT, None, MEDIUM, internal=True),
        ConfigKey("leader.replication.throttled.replicas", LIST, (), MEDIUM, ThrottledReplicas()),
        ConfigKey("local.retention.bytes", LONG, -2, MEDIUM, at_least(-2)),
        ConfigKey("local.retention.ms", LONG, -2, MEDIUM, at_least(-2)),
        ConfigKey("max.compaction.lag.ms", LONG, LONG_MAX, MEDIUM, at_least(1)),
        ConfigKey("max.message.bytes", INT, 1_048_588, MEDIUM, at_least(0)),
        ConfigKey("message.timestamp.after.max.ms", LONG, 3_600_000, MEDIUM, at_least(0)),
        ConfigKey("message.timestamp.before.max.ms", LONG, LONG_MAX, MEDIUM, at_least(0)),
        ConfigKey("message.timestamp.type", STRING, "CreateTime", MEDIUM, one_of("CreateTime", "LogAppendTime")),
        ConfigKey("min.cleanable.dirty.ratio", DOUBLE, 0.5, MEDIUM, between(0, 1)),
        ConfigKey("min.compaction.lag.ms", LONG, 0, MEDIUM, at_least(0)),
        ConfigKey("min.insync.replicas", INT, 1, MEDIUM, at_least(1)),
        ConfigKey("preallocate", BOOLEAN, False, MEDIUM),
        ConfigKey("remote.log.copy.disable", BOOLEAN, False, MEDIUM),
        ConfigKey("remote.log.delete.on.disable", BOOLEAN, False, MEDIUM),
        ConfigKey("remote.storage.enable", BOOLEAN, False, MEDIUM),
        ConfigKey("retention.bytes", LONG, -1, MEDIUM),
        ConfigKey("retention.ms", LONG, 604_800_000, MEDIUM, at_least(-1)),
        ConfigKey("segment.bytes", INT, 1_073_741_824, MEDIUM, at_least(1_048_576)),
        ConfigKey("segment.index.bytes", INT, 10_485_760, MEDIUM, at_least(4)),
        ConfigKey("segment.jitter.ms", LONG, 0, MEDIUM, at_least(0)),
        ConfigKey("segment.ms", LONG, 604_800_000, MEDIUM, at_least(1)),
        ConfigKey("unclean.leader.election.enable", BOOLEAN, False, MEDIUM),
    )
)

TOPIC_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
