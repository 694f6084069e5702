"""The values of one node's configuration, typed: from a server.properties, overrides and defaults.

They are not checked against one another yet; `kpybroker.config.broker.BrokerConfig` is. The defaults of a node that has
no configuration, for a single node on a laptop, come before Kafka's own, which are in the declarations. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.own_configs import OWN_CONFIGS
from kpybroker.config.quota_configs import QUOTA_CONFIGS
from kpybroker.config.synonyms import broker_synonyms
from kpybroker.config.zookeeper_configs import MIGRATE, ZOOKEEPER_CONFIGS
from kpybroker.machines.config_def import LONG_MAX, ConfigError, ConfigValue, Definitions, missing
from kpybroker.machines.endpoints import (
    EVERY_IPV4_INTERFACE,
    Address,
    Listener,
    listener_name,
    parse_bootstrap_servers,
    parse_listeners,
    parse_map,
    parse_voters,
    security_protocol,
)
from kpybroker.machines.sasl.jaas_file import NO_LOGIN_FILE, LoginFile

KNOWN: Definitions = {**ZOOKEEPER_CONFIGS, **BROKER_CONFIGS, **OWN_CONFIGS}
"""Every config a file can set: Kafka's, with those of ZooKeeper mode, and our own."""

# Stands for server.properties when there is none.
NO_FILE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "./data",
}
# For a node that names no quorum: it is the only one, and internal topics cannot have three replicas.
_ALONE: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


class BrokerValues:
    """Every broker config by Kafka's name (``config["log.segment.bytes"]``), and those needed often as attributes.

    ``static`` holds the values from the file, the overrides and the defaults for a single node. ``dynamic_default`` and
    ``dynamic_broker`` hold the values that AlterConfigs set for all brokers and for this one. All are texts.
    ``login_file`` is Java's login configuration file.
    """

    def __init__(
        self,
        static: Mapping[str, str],
        *,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
        login_file: LoginFile = NO_LOGIN_FILE,
    ) -> None:
        self._given = dict(static)
        self.login_file = login_file
        self.is_in_zookeeper_mode = is_in_zookeeper_mode(static)
        self.static = with_standalone_defaults(static)
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        self.originals = dict(self.static)
        for layer in (self.dynamic_default, self.dynamic_broker):
            for name in layer:
                for synonym in broker_synonyms(name, match_listener_override=False):
                    self.originals.pop(synonym, None)
            self.originals.update(layer)

    def read(self) -> None:
        """Read all values. Raises ConfigError."""
        self._set = {name: KNOWN[name].parse(text) for name, text in self.originals.items() if name in KNOWN}
        for key in BROKER_CONFIGS.values():
            if key.required and key.name not in self._set and not self.is_in_zookeeper_mode:
                raise missing(key.name)
        self._read_identity()
        self._read_listeners()
        self._read_limits()
        self._read_log()

    def updated(self, default: Mapping[str, str], broker: Mapping[str, str]) -> Self:
        """This config with other dynamic configs for all brokers and for this one. Raises ConfigError if they do not
        fit."""
        return type(self)(self._given, dynamic_default=default, dynamic_broker=broker, login_file=self.login_file)

    def __getitem__(self, name: str) -> Any:
        """The typed value of a config, by its name: int, float, bool, str, tuple of str, Password, or None when
        absent."""
        return self._set[name] if name in self._set else KNOWN[name].default

    def value(self, name: str) -> ConfigValue:
        """Like indexing, for callers that take any value."""
        value: ConfigValue = self[name]
        return value

    @property
    def move_bytes_per_second(self) -> int:
        """``replica.alter.log.dirs.io.max.bytes.per.second``."""
        return self.bytes_per_second("replica.alter.log.dirs.io.max.bytes.per.second")

    def bytes_per_second(self, name: str) -> int:
        """A limit of replication or of moves, which cannot be set in a file."""
        key = QUOTA_CONFIGS[name]
        text = self.dynamic_broker.get(key.name, self.dynamic_default.get(key.name))
        parse: Callable[[str], Any] = key.parse
        return LONG_MAX if text is None else int(parse(text))

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> Any:
        """The value of a config for one listener, and there for one SASL mechanism: ``listener.name.LISTENER.NAME`` or
        ``listener.name.LISTENER.MECHANISM.NAME`` counts before ``NAME``."""
        prefix = f"listener.name.{listener.lower()}."
        text = self.originals.get(f"{prefix}{mechanism.lower()}.{name}") if mechanism else None
        if text is None:
            text = self.originals.get(prefix + name)
        return self[name] if text is None else KNOWN[name].parse(text)

    def knows(self, name: str) -> bool:
        """Whether there is a config of this name."""
        return name in KNOWN

    def is_set(self, name: str) -> bool:
        """Whether this config was set, so that its value is no default."""
        return name in self.originals

    def asked(self, name: str, otherwise: int = -1) -> int:
        """The value of a config if it was set; its default counts for nothing."""
        return int(self[name]) if self.is_set(name) else otherwise

    def _read_identity(self) -> None:
        self.node_id: int = self["node.id"]
        self.process_roles: tuple[str, ...] = self["process.roles"]
        self.is_broker = "broker" in self.process_roles
        self.is_controller = "controller" in self.process_roles
        self.migrates_from_zookeeper: bool = self[MIGRATE]
        self.rack: str | None = self["broker.rack"]
        self.log_dirs: tuple[str, ...] = self["log.dirs"] or self["log.dir"]
        self.metadata_log_dir: str = self["metadata.log.dir"] or (self.log_dirs[0] if self.log_dirs else "")
        self.quorum_voters: dict[int, Address] = parse_voters(self["controller.quorum.voters"])
        servers = "controller.quorum.bootstrap.servers"
        self.quorum_bootstrap_servers: list[Address] = parse_bootstrap_servers(servers, self[servers])
        # A quorum of one that nobody else knows: broker and controller in this process.
        named = self.quorum_voters or self.quorum_bootstrap_servers or self.is_in_zookeeper_mode
        self.standalone = not named

    def _read_listeners(self) -> None:
        names = [name.upper() for name in self["controller.listener.names"] or ()]
        self.controller_listener_names: tuple[str, ...] = tuple(names)
        self.controller_listener_name = next(iter(names), "")
        """The listener by which nodes reach controllers: the first of these names; empty without any."""
        self.listener_protocols = self._listener_protocols()
        self.listeners = parse_listeners(self["listeners"], self.listener_protocols, distinct_ports=True)
        self.broker_listeners = [listener for listener in self.listeners if listener.name not in names]
        self.controller_listeners = [listener for listener in self.listeners if listener.name in names]
        advertised = self.listeners
        if self["advertised.listeners"] is not None:
            uris = self["advertised.listeners"]
            advertised = parse_listeners(uris, self.listener_protocols, distinct_ports=False)
        self.advertised_listeners = [listener for listener in advertised if listener.name not in names]
        self.advertised_controller_listeners = self._advertised_controller_listeners()
        self.inter_broker_listener_name, self.inter_broker_protocol = self._inter_broker_listener()

    def _listener_protocols(self) -> dict[str, str]:
        """The security protocol of every listener name. Controller listeners are PLAINTEXT if no protocols are
        configured and no listener is named after another protocol."""
        name = "listener.security.protocol.map"
        protocols = {
            listener.upper(): security_protocol(protocol, name)
            for listener, protocol in parse_map(name, self[name]).items()
        }
        if not self.is_set(name):
            used = {listener_name(uri) for uri in self["listeners"]}.union(self.controller_listener_names)
            if not used & {"SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
                protocols.update((listener, "PLAINTEXT") for listener in self.controller_listener_names)
        return protocols

    def _advertised_controller_listeners(self) -> list[Listener]:
        """The addresses where other nodes reach this controller
        (``KafkaConfig.effectiveAdvertisedControllerListeners``).

        A listener that is not advertised is reached where it listens. If the first listener is on every interface, its
        address is the one that the list of voters gives.
        """
        uris = self["advertised.listeners"] or ()
        advertised = {
            listener.name: listener for listener in parse_listeners(uris, self.listener_protocols, distinct_ports=False)
        }
        bound = {listener.name: listener for listener in self.controller_listeners}
        found = []
        for number, name in enumerate(self.controller_listener_names):
            listener = advertised.get(name)
            if listener is None and name in bound:
                listener = bound[name]
                if listener.host in ("", EVERY_IPV4_INTERFACE):
                    named = self.quorum_voters.get(self.node_id) if number == 0 else None
                    listener = listener._replace(host="") if named is None else listener._replace(**named._asdict())
            if listener is not None:
                found.append(listener)
        return found

    def _inter_broker_listener(self) -> tuple[str, str]:
        name = self["inter.broker.listener.name"]
        if name is None:
            protocol = security_protocol(self["security.inter.broker.protocol"], "security.inter.broker.protocol")
            return protocol, protocol
        if self.is_set("security.inter.broker.protocol"):
            raise ConfigError(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
            )
        if name.upper() not in self.listener_protocols:
            raise ConfigError(
                f"Listener with name {name.upper()} defined in inter.broker.listener.name not found in "
                "listener.security.protocol.map."
            )
        return name.upper(), self.listener_protocols[name.upper()]

    def _read_limits(self) -> None:
        self.socket_request_max_bytes: int = self["socket.request.max.bytes"]
        self.queued_max_request_bytes: int = self["queued.max.request.bytes"]
        self.connections_max_idle_ms: int = self["connections.max.idle.ms"]
        self.max_connections: int = self["max.connections"]
        self.max_connections_of_listeners = self._max_connections_of_listeners()
        self.max_connections_per_ip: int = self["max.connections.per.ip"]
        self.max_connections_per_ip_overrides = self._connections_per_ip_overrides()
        self.max_connection_creation_rate: int = self["max.connection.creation.rate"]
        self.request_timeout_ms: int = self["request.timeout.ms"]
        self.message_max_bytes: int = self["message.max.bytes"]
        self.offsets_commit_timeout_ms: int = self["offsets.commit.timeout.ms"]
        self.fetch_max_bytes: int = self["fetch.max.bytes"]
        self.max_fetch_sessions: int = self["max.incremental.fetch.session.cache.slots"]
        self.delete_topic_enable: bool = self["delete.topic.enable"]
        self.num_partitions: int = self["num.partitions"]
        self.default_replication_factor: int = self["default.replication.factor"]
        self.replica_lag_time_max_ms: int = self["replica.lag.time.max.ms"]
        self.producer_id_expiration_ms: int = self["producer.id.expiration.ms"]

    def _max_connections_of_listeners(self) -> dict[str, int]:
        """The limits of listeners that have a limit of their own, by listener name (KIP-402)."""
        parse: Callable[[str], Any] = KNOWN["max.connections"].parse
        names = {f"listener.name.{name.lower()}.max.connections": name for name in self.listener_protocols}
        return {names[name]: parse(text) for name, text in self.originals.items() if name in names}

    def _connections_per_ip_overrides(self) -> dict[str, int]:
        name = "max.connections.per.ip.overrides"
        overrides = parse_map(name, self[name])
        for address, limit in overrides.items():
            if not limit.isdecimal():
                raise ConfigError(f"Error parsing configuration property '{name}': {address} has no number: '{limit}'")
        return {address: int(limit) for address, limit in overrides.items()}

    def _read_log(self) -> None:
        """Times that can be given in several units: the finest unit that is set wins, as in Kafka."""
        minutes = self["log.retention.minutes"]
        coarse_ms = self["log.retention.hours"] * _HOUR_MS if minutes is None else minutes * _MINUTE_MS
        retention_ms = _first(self["log.retention.ms"], coarse_ms)
        self.log_retention_ms = -1 if retention_ms < 0 else retention_ms
        self.log_roll_ms = _first(self["log.roll.ms"], self["log.roll.hours"] * _HOUR_MS)
        self.log_roll_jitter_ms = _first(self["log.roll.jitter.ms"], self["log.roll.jitter.hours"] * _HOUR_MS)
        self.log_flush_interval_ms = _first(self["log.flush.interval.ms"], self["log.flush.scheduler.interval.ms"])


def _first(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def is_in_zookeeper_mode(static: Mapping[str, str]) -> bool:
    """Whether a node has its metadata in ZooKeeper, as Kafka 3.9 without roles."""
    return bool(static.get("zookeeper.connect")) and not static.get("process.roles")


def with_standalone_defaults(static: Mapping[str, str]) -> dict[str, str]:
    """Complete ``static``: node.id and broker.id are equal, and a node alone needs no quorum.

    In ZooKeeper mode ``broker.id`` may be missing: ZooKeeper then gives an id away.
    """
    configs = dict(static)
    if is_in_zookeeper_mode(configs):
        given = configs.get("broker.id", "-1")
        return {"broker.id": "-1", "process.roles": "broker", **configs, "node.id": "0" if given == "-1" else given}
    alone = not configs.get("controller.quorum.voters") and not configs.get("controller.quorum.bootstrap.servers")
    if alone:
        configs = {**_ALONE, **configs}
    if "node.id" not in configs and ("broker.id" in configs or alone):
        configs["node.id"] = configs.get("broker.id", "1")
    if "broker.id" not in configs and "node.id" in configs:
        configs["broker.id"] = configs["node.id"]
    return configs
