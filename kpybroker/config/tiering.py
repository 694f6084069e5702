"""The rules of tiered topics (KIP-405, KIP-950, KIP-1241), in the words of Kafka's ``LogConfig``. Pure.

A broker in ZooKeeper mode has the rules of Kafka 3.9: tiering of a topic cannot be disabled there.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.machines.config_def import ConfigError, invalid_value
from kpybroker.machines.remote_log.local_log import AS_RETENTION, UNLIMITED

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues

SYSTEM_ENABLE: Final = "remote.log.storage.system.enable"
TOPIC_ENABLE: Final = "remote.storage.enable"
COPY_DISABLE: Final = "remote.log.copy.disable"
DELETE_ON_DISABLE: Final = "remote.log.delete.on.disable"
SWITCHED_OFF: Final = (
    "You have to delete all topics with the property remote.storage.enable=true before disabling tiered storage "
    "cluster-wide"
)
"""The sentence for a broker that has tiered topics and tiering switched off."""
COMPACTED_OFF: Final = (
    "kpybroker.remote.compacted.enable must be true on all nodes as long as a compacted topic has the property "
    "remote.storage.enable=true"
)
"""The sentence for a broker that has compacted tiered topics and may not have them."""
_METADATA_CLASS: Final = "remote.log.metadata.manager.class.name"
_NOT_HERE: Final = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)
_KEPT: Final = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and "
    "turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
    "remote storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)
_COMPACTED: Final = (
    "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
)
_COMPACTED_IN_ZOOKEEPER_MODE: Final = "Remote log storage is unsupported for the compacted topics"
_NOT_IN_ZOOKEEPER_MODE: Final = (
    "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
)
_UNITS: Final = ("bytes", "ms")


def is_enabled(configs: Mapping[str, str]) -> bool:
    """Whether a topic with these texts is tiered."""
    return configs.get(TOPIC_ENABLE, "").strip().lower() == "true"


def check_topic(
    values: Mapping[str, Any],
    existing: Mapping[str, str],
    *,
    is_tiering_on: bool,
    in_zookeeper_mode: bool,
    tiers_compacted: bool = False,
) -> None:
    """Raise ConfigError if a topic that has ``existing`` cannot have these values. ``tiers_compacted`` is
    ``kpybroker.remote.compacted.enable``."""
    if in_zookeeper_mode and (values[COPY_DISABLE] or values[DELETE_ON_DISABLE]):
        raise ConfigError(_NOT_IN_ZOOKEEPER_MODE)
    if not values[TOPIC_ENABLE]:
        if is_enabled(existing) and not values[DELETE_ON_DISABLE]:
            raise ConfigError(_KEPT)
        return
    if not is_tiering_on:
        raise ConfigError(_NOT_HERE)
    if "compact" in values["cleanup.policy"] and not tiers_compacted:
        raise ConfigError(_COMPACTED_IN_ZOOKEEPER_MODE if in_zookeeper_mode else _COMPACTED)
    _check_retention(values)
    _check_copy_lag(values)
    if values[COPY_DISABLE]:
        _check_retention_without_copies(values)


def check_broker(config: "BrokerValues") -> None:
    """Raise ConfigError if topics that set nothing could not be tiered (``validateBrokerLogConfigValues``), or if the
    metadata should be elsewhere."""
    if config[_METADATA_CLASS] != BROKER_CONFIGS[_METADATA_CLASS].default:
        raise ConfigError(
            f"{_METADATA_CLASS}: classes written in Java cannot be loaded; the metadata are in the topic "
            "__remote_log_metadata"
        )
    values = {
        "retention.bytes": config["log.retention.bytes"],
        "retention.ms": config.log_retention_ms,
        "local.retention.bytes": config["log.local.retention.bytes"],
        "local.retention.ms": config["log.local.retention.ms"],
        "remote.copy.lag.bytes": config["log.remote.copy.lag.bytes"],
        "remote.copy.lag.ms": config["log.remote.copy.lag.ms"],
    }
    _check_retention(values)
    _check_copy_lag(values)


def _check_retention(values: Mapping[str, Any]) -> None:
    """Raise ConfigError if more stays on the disks than in all."""
    for unit in _UNITS:
        whole_name, name = f"retention.{unit}", f"local.retention.{unit}"
        whole, local = values[whole_name], values[name]
        if whole <= UNLIMITED or local == AS_RETENTION:
            continue
        if local == UNLIMITED:
            raise invalid_value(name, local, f"Value must not be -1 as {whole_name} value is set as {whole}.")
        if local > whole:
            raise invalid_value(name, local, f"Value must not be more than {whole_name} property value: {whole}")


def _check_copy_lag(values: Mapping[str, Any]) -> None:
    """Raise ConfigError if segments would have to leave the disk before they may be copied."""
    for unit in _UNITS:
        name, local_name = f"remote.copy.lag.{unit}", f"local.retention.{unit}"
        lag, local = values[name], values[local_name]
        kept = values[f"retention.{unit}"] if local == AS_RETENTION else local
        if lag > 0 and kept != UNLIMITED and lag > kept:
            raise invalid_value(name, lag, f"Value must not exceed {local_name} (effective value: {kept})")


def _check_retention_without_copies(values: Mapping[str, Any]) -> None:
    """Raise ConfigError unless all that is kept stays on the disks: nothing more is copied."""
    for unit in _UNITS:
        whole_name, name = f"retention.{unit}", f"local.retention.{unit}"
        if values[name] not in (AS_RETENTION, values[whole_name]):
            raise ConfigError(
                f"When `remote.log.copy.disable` is set to true, the `{name}` and `{whole_name}` must be set to the "
                "identical value because there will be no more logs copied to the remote storage."
            )
