"""The configuration of a group: the configs that may be set, and their effective values (KIP-848, KIP-932, KIP-1071).

A value set on the group overrides the broker config it is a synonym of. The broker also bounds it. Errors are worded as
Kafka's ``GroupConfig`` words them. Pure.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kpybroker.config.definition import ConfigError, ConfigValue
from kpybroker.config.group_configs import GROUP_CONFIGS, GROUP_SYNONYMS

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig

# The configs a broker bounds, in the order Kafka looks at them.
_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
)


def effective(overrides: Mapping[str, str], config: "BrokerConfig") -> dict[str, ConfigValue]:
    """The value of every group config for a group with these configs; names that are no group configs are left out."""
    values: dict[str, ConfigValue] = {name: key.default for name, key in GROUP_CONFIGS.items()}
    values.update((name, config.value(synonym)) for name, synonym in GROUP_SYNONYMS.items())
    values.update((name, GROUP_CONFIGS[name].parse(text)) for name, text in overrides.items() if name in GROUP_CONFIGS)
    return values


def validate(overrides: Mapping[str, str], config: "BrokerConfig") -> None:
    """Raise ConfigError if a group cannot have these configs."""
    for name in overrides:
        if name not in GROUP_CONFIGS:
            raise ConfigError(f"Unknown group config name: {name}")
    values: Mapping[str, Any] = effective(overrides, config)
    for name in _BOUNDED:
        kind, rest = name.split(".", 1)
        if name == "streams.num.standby.replicas":
            _at_most(values, name, config, "group.streams.max.standby.replicas")
        elif "assignment" not in name or name in overrides:
            _at_least(values, name, config, f"group.{kind}.min.{rest}")
            _at_most(values, name, config, f"group.{kind}.max.{rest}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[heartbeat] >= values[session]:
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def _at_least(values: Mapping[str, Any], name: str, config: "BrokerConfig", bound: str) -> None:
    if values[name] < config[bound]:
        raise ConfigError(f"{name} must be greater than or equal to {bound}")


def _at_most(values: Mapping[str, Any], name: str, config: "BrokerConfig", bound: str) -> None:
    if values[name] > config[bound]:
        raise ConfigError(f"{name} must be less than or equal to {bound}")


def within(config: "BrokerConfig", name: str, value: int) -> int:
    """The value of a group's config within the bounds of the broker, which may have changed since it was set."""
    if name == "streams.initial.rebalance.delay.ms":
        return value
    if name == "streams.num.standby.replicas":
        return min(value, int(config["group.streams.max.standby.replicas"]))
    kind, rest = name.split(".", 1)
    return max(int(config[f"group.{kind}.min.{rest}"]), min(value, int(config[f"group.{kind}.max.{rest}"])))
