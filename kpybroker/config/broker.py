"""The configuration of one node, from a server.properties, overrides and defaults, typed and checked.

Its use is elsewhere. Once built it never changes: a dynamic update makes another one (``with_dynamic``). A node that
has a BrokerConfig may start: everything that Kafka would refuse, and everything that would leave the node less
protected than its owner asked for, was refused in one line while building it.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from kpybroker.config import checks, dynamic, refusals
from kpybroker.config.broker_values import NO_FILE, BrokerValues
from kpybroker.config.own_configs import BALANCER_MODE, BALANCER_MOVES
from kpybroker.config.properties import Property, doubts, read_properties
from kpybroker.config.topic import TopicConfig, broker_defaults
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.sasl.jaas_file import NO_LOGIN_FILE, LoginFile


class BrokerConfig(BrokerValues):
    """The values of a node that may start. ``warnings`` are sentences that are logged at the start."""

    def __init__(
        self,
        static: Mapping[str, str],
        *,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
        login_file: LoginFile = NO_LOGIN_FILE,
    ) -> None:
        super().__init__(static, dynamic_default=dynamic_default, dynamic_broker=dynamic_broker, login_file=login_file)
        refusals.check_names(self.originals)
        self.read()
        refusals.check_security(self)
        checks.check(self)
        self.warnings = refusals.check_features(self)
        if self["remote.log.storage.system.enable"] and (self.is_broker or self.is_in_zookeeper_mode):
            from kpybroker.config import remote_metadata, remote_storage  # not of a plain start

            remote_storage.read(self)
            remote_metadata.remote_metadata_settings(self)
            self.warnings += remote_metadata.unknown_names(self)
        if login_file.why_unusable:
            self.warnings.append(login_file.why_unusable)

    @property
    def is_balancing(self) -> bool:
        """Whether the balancer is on, or has begun moves that have to be ended."""
        return self[BALANCER_MODE] != "off" or bool(self[BALANCER_MOVES])

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        defaults: Mapping[str, str] = NO_FILE,
        login_file: LoginFile = NO_LOGIN_FILE,
    ) -> "BrokerConfig":
        """Load a server.properties file with ``overrides``; without a file ``defaults`` are used in its place.

        Raises ConfigError with one line that names the mistake and its line in the file.
        """
        overrides = overrides or {}
        if path is None:
            return cls({**defaults, **overrides}, login_file=login_file)
        properties = read_properties(path)
        static = {name: entry.value for name, entry in properties.items()}
        try:
            config = cls({**static, **overrides}, login_file=login_file)
            config.warnings += doubts(properties, str(path))
            return config
        except ConfigError as error:
            raise _at_line(error, path, {k: v for k, v in properties.items() if k not in overrides}) from None

    def with_broker_id(self, broker_id: int) -> "BrokerConfig":
        """This config with the id that ZooKeeper gave to the broker."""
        return BrokerConfig({**self._given, "broker.id": str(broker_id)}, login_file=self.login_file)

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> "BrokerConfig":
        """Like `updated`, for stored configs: values that cannot be used are left out, and named in ``warnings``.

        Kafka first leaves out single values, then all values of this broker, then all values of all brokers.
        """
        mode = self.is_in_zookeeper_mode
        usable_default = dynamic.valid_part(default, of_one_broker=False, in_zookeeper_mode=mode)
        usable_broker = dynamic.valid_part(broker, of_one_broker=True, in_zookeeper_mode=mode)
        ignored = [name for name in default if name not in usable_default]
        ignored += [name for name in broker if name not in usable_broker]
        for layers in ((usable_default, usable_broker), (usable_default, {}), ({}, {})):
            try:
                config = self.updated(*layers)
                break
            except ConfigError as error:
                ignored.append(error.message)
        config.warnings += [f"a dynamic config cannot be used: {reason}" for reason in ignored]
        return config

    @cached_property
    def topic_defaults(self) -> TopicConfig:
        """The configs of topics that set nothing."""
        return TopicConfig(
            broker_defaults(self),
            {},
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            tiers_compacted=self["kpybroker.remote.compacted.enable"],
        )


def _at_line(error: ConfigError, path: Path, properties: Mapping[str, Property]) -> ConfigError:
    """The error with the file, and the line of the config that its sentence names first."""
    places = [
        (error.message.find(name), -len(name), entry.line)
        for name, entry in properties.items()
        if name in error.message
    ]
    place = f"{path}:{min(places)[2]}" if places else str(path)
    return ConfigError(f"{place}: {error.message}", error.code)
