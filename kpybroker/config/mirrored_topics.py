"""The values of the configs of mirrors. Imported only where one is set."""

from collections.abc import Mapping
from typing import Final

from kpybroker.config.validators import between, one_of
from kpybroker.machines.config_def import INT, MEDIUM, STRING, ConfigError, ConfigKey, Definitions, define
from kpybroker.machines.metadata.mirror_configs import (
    EXPORT,
    EXPORTED,
    EXPORTING,
    JOINING,
    LEADER_EPOCH,
    MIRRORING,
    SOURCE,
    STATE,
    STOPPING,
    TOPIC_ID,
)
from kpybroker.machines.mirror.divergence import exported_parts
from kpywire.uuid import from_string

LATEST_EPOCH: Final = 1 << 30
"""The latest epoch that may be set: elections go on from there."""
MIRRORED_TOPIC_CONFIGS: Definitions = define(
    (
        ConfigKey(EXPORT, STRING, "", MEDIUM),
        ConfigKey(EXPORTED, STRING, "", MEDIUM),
        ConfigKey(LEADER_EPOCH, INT, 0, MEDIUM, between(0, LATEST_EPOCH)),
        ConfigKey(SOURCE, STRING, "", MEDIUM),
        ConfigKey(STATE, STRING, MIRRORING, MEDIUM, one_of(EXPORTING, JOINING, MIRRORING, STOPPING)),
        ConfigKey(TOPIC_ID, STRING, "", MEDIUM),
    )
)
"""DescribeConfigs shows them only where they are set."""
TOGETHER: Final = (SOURCE, TOPIC_ID, LEADER_EPOCH)


def check(name: str, configs: Mapping[str, str]) -> None:
    """Raise ConfigError unless a topic with these configs, ``name`` among them, may be a mirror."""
    key = MIRRORED_TOPIC_CONFIGS.get(name)
    if key is None:
        raise ConfigError(f"Unknown topic config name: {name}")
    missing = [each for each in TOGETHER if each not in configs]
    if missing:
        raise ConfigError(f"{name} cannot be set without {', '.join(missing)}")
    key.parse(configs[name])
    if name == EXPORTED:
        try:
            exported_parts(configs[name])
        except ValueError:
            raise ConfigError(f"{name}: {configs[name]!r} does not list parts of partitions") from None
    if name == TOPIC_ID:
        try:
            from_string(configs[name])
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from None
