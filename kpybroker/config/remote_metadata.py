"""The configs of ``__remote_log_metadata``: Kafka's names under ``remote.log.metadata.manager.impl.prefix``.

(Kafka: ``TopicBasedRemoteLogMetadataManagerConfig``.) Those of Kafka's own clients, which this broker does not need,
are known and have no effect.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from kpybroker.config.refusals import shown_name
from kpybroker.config.validators import at_least
from kpybroker.machines.config_def import INT, LONG, LOW, SHORT, ConfigError, ConfigKey, define
from kpybroker.machines.names_nearby import nearby

PREFIX: Final = "remote.log.metadata.manager.impl.prefix"
PARTITIONS: Final = "remote.log.metadata.topic.num.partitions"
REPLICATION_FACTOR: Final = "remote.log.metadata.topic.replication.factor"
RETENTION_MS: Final = "remote.log.metadata.topic.retention.ms"
MIN_ISR: Final = "remote.log.metadata.topic.min.isr"
REMOTE_METADATA_CONFIGS: Final = define(
    (
        ConfigKey(PARTITIONS, INT, 50, LOW, at_least(1)),
        ConfigKey(REPLICATION_FACTOR, SHORT, 3, LOW, at_least(1)),
        ConfigKey(RETENTION_MS, LONG, -1, LOW),
        ConfigKey(MIN_ISR, SHORT, 2, LOW, at_least(1)),
        ConfigKey("remote.log.metadata.consume.wait.ms", LONG, 120_000, LOW, at_least(0)),
        ConfigKey("remote.log.metadata.initialization.retry.interval.ms", LONG, 100, LOW, at_least(0)),
        ConfigKey("remote.log.metadata.initialization.retry.max.timeout.ms", LONG, 120_000, LOW, at_least(0)),
    )
)
OF_CLIENTS: Final = (
    "remote.log.metadata.admin.",
    "remote.log.metadata.common.client.",
    "remote.log.metadata.consumer.",
    "remote.log.metadata.producer.",
)
"""Prefixes of the configs of Kafka's clients of the topic."""


class RemoteMetadataSettings(NamedTuple):
    """The settings with which the topic is made."""

    partitions: int
    replication_factor: int
    is_replication_factor_set: bool
    """Whether the replication factor was configured, so that it must not be lowered."""
    retention_ms: int
    min_isr: int


class _NodeConfig(Protocol):
    """The configuration of a node, as this module needs it."""

    @property
    def originals(self) -> Mapping[str, str]: ...

    def __getitem__(self, name: str) -> object: ...


def remote_metadata_settings(config: _NodeConfig) -> RemoteMetadataSettings:
    """The settings of a node. ConfigError names the config with its prefix."""
    prefix, values = str(config[PREFIX]), {}
    for name, key in REMOTE_METADATA_CONFIGS.items():
        text = config.originals.get(prefix + name)
        try:
            values[name] = key.default if text is None else key.parse(text)
        except ConfigError as error:
            raise ConfigError(str(error).replace(name, prefix + name, 1)) from None
    return RemoteMetadataSettings(
        int(str(values[PARTITIONS])),
        int(str(values[REPLICATION_FACTOR])),
        prefix + REPLICATION_FACTOR in config.originals,
        int(str(values[RETENTION_MS])),
        int(str(values[MIN_ISR])),
    )


def unknown_names(config: _NodeConfig) -> list[str]:
    """A sentence about each config under the prefix that is not known."""
    prefix = str(config[PREFIX])
    sentences = []
    for full in sorted(config.originals):
        name = full.removeprefix(prefix)
        if name != full and name not in REMOTE_METADATA_CONFIGS and not name.startswith(OF_CLIENTS):
            hint = nearby(REMOTE_METADATA_CONFIGS, name, most=1).replace("did you mean ", f"did you mean {prefix}")
            sentences.append(f"{shown_name(full)} is not a config that is known here, it is ignored{hint}")
    return sentences
