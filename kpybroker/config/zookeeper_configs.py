"""The broker configs that Kafka 3.9 has and 4.0 removed, those of ZooKeeper mode, and those that Kafka 3.9 defines
otherwise. They are read only with ``zookeeper.connect``."""

from typing import Final

from kpybroker.config.validators import at_least, one_of
from kpybroker.machines.config_def import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    ConfigKey,
    define,
)

CONNECT: Final = "zookeeper.connect"
MIGRATE: Final = "zookeeper.metadata.migration.enable"
NEWEST_PROTOCOL: Final = "3.9"
_CIPHER: Final = "AES/CBC/PKCS5Padding"
"""The only cipher for passwords that is available here, and Kafka's default: that of ``passwords``."""

ZOOKEEPER_CONFIGS: Final = define(
    (
        ConfigKey(CONNECT, STRING, None, HIGH),
        ConfigKey("zookeeper.session.timeout.ms", INT, 18_000, HIGH),
        ConfigKey("zookeeper.connection.timeout.ms", INT, None, HIGH),
        ConfigKey("zookeeper.max.in.flight.requests", INT, 10, HIGH, at_least(1)),
        ConfigKey("zookeeper.set.acl", BOOLEAN, False, HIGH),
        ConfigKey(MIGRATE, BOOLEAN, False, HIGH),
        ConfigKey("zookeeper.clientCnxnSocket", STRING, None, MEDIUM),
        ConfigKey("zookeeper.ssl.client.enable", BOOLEAN, False, MEDIUM),
        ConfigKey("zookeeper.ssl.keystore.location", STRING, None, MEDIUM),
        ConfigKey("zookeeper.ssl.keystore.password", PASSWORD, None, MEDIUM),
        ConfigKey("zookeeper.ssl.keystore.type", STRING, None, MEDIUM),
        ConfigKey("zookeeper.ssl.truststore.location", STRING, None, MEDIUM),
        ConfigKey("zookeeper.ssl.truststore.password", PASSWORD, None, MEDIUM),
        ConfigKey("zookeeper.ssl.truststore.type", STRING, None, MEDIUM),
        ConfigKey("zookeeper.ssl.protocol", STRING, "TLSv1.2", LOW),
        ConfigKey("zookeeper.ssl.enabled.protocols", LIST, None, LOW),
        ConfigKey("zookeeper.ssl.cipher.suites", LIST, None, LOW),
        ConfigKey("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", LOW),
        ConfigKey("zookeeper.ssl.crl.enable", BOOLEAN, False, LOW),
        ConfigKey("zookeeper.ssl.ocsp.enable", BOOLEAN, False, LOW),
        ConfigKey("log.dir", STRING, "/tmp/kafka-logs", HIGH),
        ConfigKey("broker.id.generation.enable", BOOLEAN, True, MEDIUM),
        ConfigKey("reserved.broker.max.id", INT, 1_000, MEDIUM, at_least(0)),
        ConfigKey("inter.broker.protocol.version", STRING, NEWEST_PROTOCOL, MEDIUM),
        ConfigKey("control.plane.listener.name", STRING, None, HIGH),
        ConfigKey("controlled.shutdown.max.retries", INT, 3, MEDIUM),
        ConfigKey("controlled.shutdown.retry.backoff.ms", LONG, 5_000, MEDIUM),
        ConfigKey("leader.imbalance.per.broker.percentage", INT, 10, HIGH),
        ConfigKey("password.encoder.secret", PASSWORD, None, MEDIUM),
        ConfigKey("password.encoder.old.secret", PASSWORD, None, MEDIUM),
        ConfigKey("password.encoder.keyfactory.algorithm", STRING, None, LOW),
        ConfigKey("password.encoder.cipher.algorithm", STRING, _CIPHER, LOW, one_of(_CIPHER)),
        ConfigKey("password.encoder.key.length", INT, 128, LOW, at_least(8)),
        ConfigKey("password.encoder.iterations", INT, 4_096, LOW, at_least(1_024)),
    )
)
REFUSED_IN_ZOOKEEPER_MODE: Final = {
    "zookeeper.ssl.crl.enable": "revocation of certificates is not checked",
    "zookeeper.ssl.ocsp.enable": "revocation of certificates is not checked",
    "control.plane.listener.name": "requests of the controller come by the listener of brokers",
    "password.encoder.old.secret": "passwords are not encrypted again; set them again with the new secret",
}
"""Configs whose effect would be missed, with the reasons why they are refused."""
_NO_QUORUM = "there is no quorum"
_NO_LOG = "there is no metadata log"
_CLASSIC = "groups are those of the classic protocol, as with Kafka 3.9"
_SESSIONS = "brokers have sessions of ZooKeeper"
_NO_TELEMETRY = "clients are not asked for metrics, as with Kafka 3.9"
NO_EFFECT_IN_ZOOKEEPER_MODE: Final = {
    "broker.heartbeat.interval.ms": _SESSIONS,
    "broker.session.timeout.ms": _SESSIONS,
    "controller.quorum.": _NO_QUORUM,
    "early.start.listeners": _NO_QUORUM,
    "group.consumer.": _CLASSIC,
    "group.coordinator.rebalance.protocols": _CLASSIC,
    "group.share.": _CLASSIC,
    "group.streams.": _CLASSIC,
    "initial.broker.registration.timeout.ms": _SESSIONS,
    "kpybroker.balancer.": _NO_QUORUM,
    "kpybroker.client.metrics.max.series": _NO_TELEMETRY,
    "kpybroker.suspicion.enable": _SESSIONS,
    "log.dir.failure.timeout.ms": "the controller hears of a failed directory at once",
    "max.request.partition.size.limit": "DescribeTopicPartitions is not served, as with Kafka 3.9",
    "metadata.log.": _NO_LOG,
    "metadata.max.": _NO_LOG,
    "sasl.mechanism.controller.protocol": _NO_QUORUM,
    "sasl.oauthbearer.allow.unverified.": "neither audience nor issuer is demanded, as with Kafka 3.9",
    "share.coordinator.": _CLASSIC,
    "telemetry.max.bytes": _NO_TELEMETRY,
    "unclean.leader.election.interval.ms": "the controller elects whenever something changes, as with Kafka 3.9",
}
"""Configs that a broker in ZooKeeper mode reads only while it migrates, or never, and the reasons. A name that ends
with a dot stands for all configs that begin so."""


def why_no_effect(name: str) -> str | None:
    """The reason why a config has no effect in ZooKeeper mode; None if it has one."""
    reasons = (why for prefix, why in NO_EFFECT_IN_ZOOKEEPER_MODE.items() if _stands_for(prefix, name))
    return next(reasons, None)


def _stands_for(prefix: str, name: str) -> bool:
    return name.startswith(prefix) if prefix.endswith(".") else name == prefix
