"""The configuration of a group: the configs that may be set, and their effective values (KIP-848, KIP-932, KIP-1071).

A value set on the group overrides the broker config it is a synonym of. The broker also bounds it. Errors are worded as
Kafka's ``GroupConfig`` words them. Pure.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kpybroker.config.checks import STICKY_TASKS, has_duplicates
from kpybroker.config.group_configs import GROUP_CONFIGS, GROUP_SYNONYMS
from kpybroker.machines.config_def import ConfigError, ConfigValue

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig

# The configs a broker bounds, in the order Kafka looks at them.
_BOUNDED: Final = (
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
    "streams.task.offset.interval.ms",
    "streams.num.warmup.replicas",
)
_LEAST: Final = {"streams.task.offset.interval.ms": "group.streams.min.task.offset.interval.ms"}
_MOST: Final = {
    "streams.num.standby.replicas": "group.streams.max.standby.replicas",
    "streams.num.warmup.replicas": "group.streams.max.warmup.replicas",
}
_ASSIGNOR: Final = "streams.assignor.name"
_TAGS: Final = "streams.rack.aware.assignment.tags"
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"


def effective(overrides: Mapping[str, str], config: "BrokerConfig") -> dict[str, ConfigValue]:
    """The value of every group config for a group with these configs; names that are no group configs are left out."""
    values: dict[str, ConfigValue] = {name: key.default for name, key in GROUP_CONFIGS.items()}
    values.update((name, config.value(synonym)) for name, synonym in GROUP_SYNONYMS.items())
    values[_ASSIGNOR] = registered_assignors(config)[0]
    values.update((name, GROUP_CONFIGS[name].parse(text)) for name, text in overrides.items() if name in GROUP_CONFIGS)
    return values


def validate(overrides: Mapping[str, str], config: "BrokerConfig") -> None:
    """Raise ConfigError if a group cannot have these configs. Those that it does not set are not checked."""
    for name in overrides:
        if name not in GROUP_CONFIGS:
            raise ConfigError(f"Unknown group config name: {name}")
    if has_duplicates(overrides.get(_TAGS, "")):
        raise ConfigError(f"{_TAGS} must not contain duplicate tag keys.")
    values: Mapping[str, Any] = effective(overrides, config)
    for name in _BOUNDED:
        if name in overrides:
            _check_range(name, values[name], *_bounds(config, name))
    registered = registered_assignors(config)
    if _ASSIGNOR in overrides and values[_ASSIGNOR] not in registered:
        raise ConfigError(
            f"{_ASSIGNOR} '{values[_ASSIGNOR]}' is not a registered task assignor. "
            f"Registered assignors are: [{', '.join(registered)}]."
        )
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if overrides.keys() & {session, heartbeat} and values[heartbeat] >= values[session]:
            raise ConfigError(f"{session} must be greater than {heartbeat}")
    if values[_DEAD_LETTERS].startswith("__"):
        raise ConfigError(f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'")


def registered_assignors(config: "BrokerConfig") -> list[str]:
    """The names of the assignors of streams groups; a broker's config may also have their classes."""
    return [name if name != STICKY_TASKS else "sticky" for name in config["group.streams.assignors"]]


def _bounds(config: "BrokerConfig", name: str) -> tuple[int | None, int | None]:
    """The lowest and the highest value that this broker allows; None where it sets no bound."""
    if name in _LEAST:
        return int(config[_LEAST[name]]), None
    if name in _MOST:
        return None, int(config[_MOST[name]])
    kind, rest = name.split(".", 1)
    return int(config[f"group.{kind}.min.{rest}"]), int(config[f"group.{kind}.max.{rest}"])


def _check_range(name: str, value: int, lowest: int | None, highest: int | None) -> None:
    is_low, is_high = lowest is not None and value < lowest, highest is not None and value > highest
    if not is_low and not is_high:
        return
    if highest is None:
        raise ConfigError(f"{name} must be greater than or equal to {lowest}")
    if lowest is None:
        raise ConfigError(f"{name} must be less than or equal to {highest}")
    raise ConfigError(f"{name} must be in the range {lowest} to {highest} inclusive.")


def within(config: "BrokerConfig", name: str, value: Any) -> Any:
    """The value of a group's config within the bounds of the broker, which may have changed since it was set."""
    if name not in _BOUNDED:
        return value
    lowest, highest = _bounds(config, name)
    value = value if highest is None else min(value, highest)
    return value if lowest is None else max(value, lowest)
