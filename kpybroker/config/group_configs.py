"""Every config of a group and of a client metrics subscription, and where a group's defaults come from.

Generated from Apache Kafka's definitions by oracle.render_configs; do not edit. Texts are in documentation.json.
"""

from collections.abc import Mapping

from kpybroker.config.validators import ShareOffsetReset, at_least, list_of, one_of
from kpybroker.machines.config_def import BOOLEAN, INT, LIST, LONG, LOW, MEDIUM, STRING, ConfigKey, Definitions, define

GROUP_CONFIGS: Definitions = define(
    (
        ConfigKey("consumer.assignment.interval.ms", INT, 1_000, MEDIUM, at_least(0)),
        ConfigKey("consumer.assignor.offload.enable", BOOLEAN, True, MEDIUM, internal=True),
        ConfigKey("consumer.heartbeat.interval.ms", INT, 5_000, MEDIUM, at_least(1)),
        ConfigKey("consumer.session.timeout.ms", INT, 45_000, MEDIUM, at_least(1)),
        ConfigKey("errors.deadletterqueue.copy.record.enable", BOOLEAN, False, MEDIUM),
        ConfigKey("errors.deadletterqueue.topic.name", STRING, "", MEDIUM),
        ConfigKey("share.assignment.interval.ms", INT, 1_000, MEDIUM, at_least(0)),
        ConfigKey("share.assignor.offload.enable", BOOLEAN, True, MEDIUM, internal=True),
        ConfigKey("share.auto.offset.reset", STRING, "latest", MEDIUM, ShareOffsetReset()),
        ConfigKey("share.delivery.count.limit", INT, 5, MEDIUM, at_least(2)),
        ConfigKey("share.heartbeat.interval.ms", INT, 5_000, MEDIUM, at_least(1)),
        ConfigKey(
            "share.isolation.level", STRING, "read_uncommitted", MEDIUM, one_of("read_committed", "read_uncommitted")
        ),
        ConfigKey("share.partition.max.record.locks", INT, 2_000, MEDIUM, at_least(100)),
        ConfigKey("share.record.lock.duration.ms", INT, 30_000, MEDIUM, at_least(1_000)),
        ConfigKey("share.renew.acknowledge.enable", BOOLEAN, True, MEDIUM),
        ConfigKey("share.session.timeout.ms", INT, 45_000, MEDIUM, at_least(1)),
        ConfigKey("streams.acceptable.recovery.lag", LONG, 10_000, MEDIUM, at_least(0), internal=True),
        ConfigKey("streams.assignment.interval.ms", INT, 1_000, MEDIUM, at_least(0)),
        ConfigKey("streams.assignor.name", STRING, None, MEDIUM),
        ConfigKey("streams.assignor.offload.enable", BOOLEAN, True, MEDIUM, internal=True),
        ConfigKey("streams.heartbeat.interval.ms", INT, 5_000, MEDIUM, at_least(1)),
        ConfigKey("streams.initial.rebalance.delay.ms", INT, 3_000, MEDIUM, at_least(0)),
        ConfigKey("streams.num.standby.replicas", INT, 0, MEDIUM, at_least(0)),
        ConfigKey("streams.num.warmup.replicas", INT, 2, MEDIUM, at_least(0), internal=True),
        ConfigKey("streams.rack.aware.assignment.tags", LIST, (), LOW, list_of()),
        ConfigKey("streams.session.timeout.ms", INT, 45_000, MEDIUM, at_least(1)),
        ConfigKey("streams.task.offset.interval.ms", INT, 60_000, MEDIUM, at_least(1), internal=True),
    )
)

CLIENT_METRICS_CONFIGS: Definitions = define(
    (
        ConfigKey("interval.ms", INT, 300_000, MEDIUM),
        ConfigKey("match", LIST, (), MEDIUM, list_of()),
        ConfigKey("metrics", LIST, (), MEDIUM, list_of()),
    )
)

GROUP_SYNONYMS: Mapping[str, str] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.assignor.offload.enable": "group.consumer.assignor.offload.enable",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.assignor.offload.enable": "group.share.assignor.offload.enable",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.acceptable.recovery.lag": "group.streams.acceptable.recovery.lag",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.assignor.name": "group.streams.assignors",
    "streams.assignor.offload.enable": "group.streams.assignor.offload.enable",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.num.warmup.replicas": "group.streams.num.warmup.replicas",
    "streams.rack.aware.assignment.tags": "group.streams.rack.aware.assignment.tags",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
    "streams.task.offset.interval.ms": "group.streams.task.offset.interval.ms",
}
