"""The conditions between broker configs, beyond those of each single config: Kafka's cross-checks, in Kafka's words.

They are checked once after a config is read, before it is used. Pure. A node that stands alone (no quorum named) needs
no controller listener; everything else is as in Kafka's ``KafkaConfig``, ``GroupCoordinatorConfig`` and
``ShareGroupConfig``.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kpybroker.config import between_nodes
from kpybroker.config.topic import check_compaction_lag
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.endpoints import EVERY_IPV4_INTERFACE, is_host

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues

_MIB = 1024 * 1024
_NO_QUORUM: Final = (
    "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers "
    "or controller.quorum.voters must contain a parseable set of controllers."
)
_ASSIGNOR_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
STICKY_TASKS: Final = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
"""Kafka's class of the assignor ``sticky``."""
_IN_MEMORY_PLUGIN: Final = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
"""The plug-in for descriptions of topologies that Kafka ships. They are kept here without it too."""
_ASSIGNORS: Final = {
    "consumer": ("uniform", "range", _ASSIGNOR_PACKAGE + "UniformAssignor", _ASSIGNOR_PACKAGE + "RangeAssignor"),
    "share": ("simple", _ASSIGNOR_PACKAGE + "SimpleAssignor"),
    "streams": ("sticky", STICKY_TASKS),
}
# Configs of each kind of group that have a smallest and a largest value of their own.
_BOUNDED = {
    "consumer": ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"),
    "share": (
        "heartbeat.interval.ms",
        "session.timeout.ms",
        "assignment.interval.ms",
        "delivery.count.limit",
        "partition.max.record.locks",
        "record.lock.duration.ms",
    ),
    "streams": ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"),
}


def has_duplicates(text: str) -> bool:
    """Whether a list names something twice. Lists that are parsed name nothing twice."""
    names = re.split(r"\s*,\s*", text.strip())
    return len(set(names)) < len(names)


def check(config: "BrokerValues") -> None:
    """Raise ConfigError for the first configs that do not fit together."""
    if config.node_id != config["broker.id"] and not config.is_in_zookeeper_mode:
        raise ConfigError(
            "`node.id` and `broker.id` must be set to the same value. "
            "`broker.id` is deprecated, please use `node.id` instead."
        )
    _check_early_listeners(config)
    _check_log(config)
    _check_replication(config)
    _check_roles(config)
    _check_advertised(config)
    between_nodes.check(config)
    _check_connections(config)
    _check_groups(config)
    if config["remote.log.storage.system.enable"]:
        from kpybroker.config import tiering  # not of a plain start

        tiering.check_broker(config)
    if config["authorizer.class.name"]:
        from kpybroker.config import authorizer_configs  # not of a plain start

        authorizer_configs.check(config)


def _must(condition: bool, message: str) -> None:  # noqa: FBT001
    if not condition:
        raise ConfigError(message)


def _require(condition: bool, message: str) -> None:  # noqa: FBT001
    _must(condition, f"requirement failed: {message}")


def _scala_set(numbers: Iterable[int]) -> str:
    return f"Set({', '.join(map(str, numbers))})"


def _check_log(config: "BrokerValues") -> None:
    _require(config.log_roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(config.log_roll_jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(
        config.log_retention_ms >= 1 or config.log_retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(bool(config.log_dirs), "At least one log directory must be defined via log.dirs or log.dir.")
    _require(
        config["log.cleaner.dedupe.buffer.size"] // max(1, config["log.cleaner.threads"]) > _MIB,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    check_compaction_lag(config["log.cleaner.min.compaction.lag.ms"], config["log.cleaner.max.compaction.lag.ms"])
    cordoned = config["cordoned.log.dirs"]
    _require(
        "*" not in cordoned or len(cordoned) == 1,
        "When cordoned.log.dirs is set to *, it must not contain other values",
    )
    unknown = [directory for directory in cordoned if directory not in ("*", *config.log_dirs)]
    _require(
        not unknown,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(unknown)}",
    )


def _check_replication(config: "BrokerValues") -> None:
    wait_max_ms = config["replica.fetch.wait.max.ms"]
    _require(
        wait_max_ms <= config["replica.socket.timeout.ms"],
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait_max_ms <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )


def _check_roles(config: "BrokerValues") -> None:
    """Check the roles as ``KafkaConfig`` does for each role. A node with both roles may also stand alone, with no
    quorum named."""
    if config.is_in_zookeeper_mode:
        return
    if config.is_broker and config.is_controller:
        if not config.standalone:
            _check_controller(config)
        return
    _must(not config.standalone, _NO_QUORUM)
    if config.is_controller:
        _require(
            len(config.advertised_controller_listeners) == len(config.listeners),
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        )
        _require(
            not config["inter.broker.listener.name"]
            or config.inter_broker_listener_name not in config.controller_listener_names,
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration "
            "value when process.roles=controller'",
        )
        _check_controller(config)
    else:
        _check_broker_alone(config)


def _check_broker_alone(config: "BrokerValues") -> None:
    _require(
        config.node_id not in config.quorum_voters,
        f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be included in the "
        f"set of voters controller.quorum.voters={_scala_set(config.quorum_voters)}",
    )
    _require(
        not config.controller_listeners,
        "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running "
        "KRaft with just the broker role",
    )
    for name in config.controller_listener_names:
        _must(
            name in config.listener_protocols,
            f"Controller listener with name {name} defined in controller.listener.names not found in "
            "listener.security.protocol.map  (an explicit security mapping for each controller listener is required if "
            "listener.security.protocol.map is non-empty, or if there are security protocols other than PLAINTEXT in "
            "use)",
        )
    _require(
        not config["controller.quorum.auto.join.enable"],
        "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
    )


def _check_controller(config: "BrokerValues") -> None:
    _require(
        not config.quorum_voters or config.node_id in config.quorum_voters,
        f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in the set of "
        f"voters controller.quorum.voters={_scala_set(config.quorum_voters)}",
    )
    _require(
        bool(config.advertised_controller_listeners),
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
        "running the KRaft controller role",
    )
    names = {listener.name for listener in config.listeners}
    _require(
        names.issuperset(config.controller_listener_names),
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when running "
        "the KRaft controller role",
    )


def _check_early_listeners(config: "BrokerValues") -> None:
    """Check that each of these listeners exists."""
    names = {*(listener.name for listener in config.listeners), *config.controller_listener_names}
    for name in config["early.start.listeners"] or ():
        _must(
            not name or name in names,
            f"early.start.listeners contains listener {name}, but this is not contained in listeners or "
            "controller.listener.names",
        )


def _check_advertised(config: "BrokerValues") -> None:
    if config.is_broker:
        advertised = [listener.name for listener in config.advertised_listeners]
        names = [listener.name for listener in config.listeners]
        _require(
            bool(advertised),
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?",
        )
        _require(
            config.inter_broker_listener_name in advertised,
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(advertised)}",
        )
        _require(
            set(advertised) <= set(names),
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
            f"{','.join(advertised)}. The valid options based on the current configuration are {','.join(names)}",
        )
    for listener in [*config.advertised_listeners, *config.advertised_controller_listeners]:
        _require(
            listener.host != EVERY_IPV4_INTERFACE,
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        )


def _check_connections(config: "BrokerValues") -> None:
    _require(
        config.queued_max_request_bytes <= 0 or config.queued_max_request_bytes >= config.socket_request_max_bytes,
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = config.max_connections_per_ip_overrides
    _require(
        config.max_connections_per_ip != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    invalid = [address for address in overrides if not is_host(address)]
    _must(not invalid, f"max.connections.per.ip.overrides contains invalid addresses : {','.join(invalid)}")
    delay_ms = config["connection.failed.authentication.delay.ms"]
    _require(
        config.connections_max_idle_ms < 0 or delay_ms < config.connections_max_idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={config.connections_max_idle_ms} to prevent failed authentication responses from "
        "timing out",
    )


def _check_groups(config: "BrokerValues") -> None:
    for kind, names in _BOUNDED.items():
        prefix = f"group.{kind}."
        for name in names:
            lowest, usual, highest = f"{prefix}min.{name}", prefix + name, f"{prefix}max.{name}"
            _must(config[highest] >= config[lowest], f"{highest} must be greater than or equal to {lowest}")
            _must(config[usual] >= config[lowest], f"{usual} must be greater than or equal to {lowest}")
            _must(config[usual] <= config[highest], f"{usual} must be less than or equal to {highest}")
        heartbeat, session = prefix + "heartbeat.interval.ms", prefix + "session.timeout.ms"
        _must(config[heartbeat] < config[session], f"{heartbeat} must be less than {session}")
    standby, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    _must(config[standby] <= config[most], f"{standby} must be less than or equal to {most}")
    warmup, most = "group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"
    _must(config[warmup] <= config[most], f"{warmup} must be less than or equal to {most}")
    interval, least = "group.streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms"
    _must(config[interval] >= config[least], f"{interval} must be greater than or equal to {least}")
    tags = "group.streams.rack.aware.assignment.tags"
    _must(not has_duplicates(config.static.get(tags, "")), f"{tags} must not contain duplicate tag keys.")
    plugin = "group.streams.topology.description.plugin.class"
    _must(
        config[plugin] in (None, "", _IN_MEMORY_PLUGIN),
        f"Invalid value {config[plugin]} for configuration {plugin}: Class {config[plugin]} could not be found.",
    )
    sessions, members = "group.share.max.share.sessions", "group.share.max.size"
    _must(config[sessions] >= config[members], f"{sessions} must be greater than or equal to {members}")
    for kind, known in _ASSIGNORS.items():
        name = f"group.{kind}.assignors"
        for assignor in config[name]:
            _must(assignor in known, f"Invalid value {assignor} for configuration {name}: Class cannot be found")
    assignors = config["group.share.assignors"]
    _must(
        len(assignors) == 1,
        f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}",
    )
