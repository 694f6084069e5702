"""Broker configs that change while the broker runs: which may be set, and which stored ones can be used (KIP-226).

Pure. There are two layers of texts: the configs set for all brokers (the resource ``""``) and those set for this one. A
request is refused as Kafka's ``DynamicBrokerConfig`` refuses it. A stored config that cannot be used is dropped; it is
never fatal.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.honoured import NEVER
from kpybroker.config.own_configs import OWN_CONFIGS
from kpybroker.config.quota_configs import QUOTA_CONFIGS
from kpybroker.config.refusals import is_of_oauthbearer
from kpybroker.config.synonyms import CERTIFICATES_OF_LISTENER, base_of_listener_config
from kpybroker.config.zookeeper_configs import ZOOKEEPER_CONFIGS
from kpybroker.machines.config_def import PASSWORD, PER_BROKER, READ_ONLY, ConfigError, ConfigKey
from kpybroker.machines.endpoints import WITH_TLS
from kpywire.error_codes import INVALID_REQUEST

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues

# Configs that can be set for one listener on all brokers; others of a listener only per broker.
_CLUSTER_WIDE_OF_LISTENER: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_POOLS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)


def key_of(name: str) -> ConfigKey | None:
    """The definition of a broker config, or of a config of one listener; None for an unknown name."""
    key = BROKER_CONFIGS.get(name) or QUOTA_CONFIGS.get(name) or OWN_CONFIGS.get(name)
    if key is None:
        base = base_of_listener_config(name)
        key = None if base is None else BROKER_CONFIGS.get(base)
    return key


def is_password(name: str) -> bool:
    """Whether a config of a broker is a password."""
    key = key_of(name)
    return key is not None and key.type == PASSWORD


def is_read_only(name: str) -> bool:
    """Whether a name is not among those that can be updated (``DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS``)."""
    key = BROKER_CONFIGS.get(name) or QUOTA_CONFIGS.get(name) or OWN_CONFIGS.get(name)
    return key is None or key.update == READ_ONLY


def valid_part(configs: Mapping[str, str], *, of_one_broker: bool, in_zookeeper_mode: bool) -> dict[str, str]:
    """The stored configs that can be used; unknown names stay, as in Kafka."""
    usable = {}
    for name, text in configs.items():
        try:
            _check_names({name: text}, of_one_broker=of_one_broker, in_zookeeper_mode=in_zookeeper_mode)
        except ConfigError:
            continue
        usable[name] = text
    return usable


def check_names_and_values(configs: Mapping[str, str], *, of_one_broker: bool, in_zookeeper_mode: bool) -> None:
    """Raise ConfigError for names that cannot be set so, and values that no broker has: this depends neither on a file
    nor on the present configs."""
    try:
        _check_names(configs, of_one_broker=of_one_broker, in_zookeeper_mode=in_zookeeper_mode)
    except ConfigError as error:
        raise ConfigError(error.message, INVALID_REQUEST) from None


def validate(configs: Mapping[str, str], config: "BrokerValues", *, of_one_broker: bool) -> None:
    """Raise ConfigError if ``configs`` cannot become those of this broker (or of all brokers).

    ``config`` is the broker's present config. The code is INVALID_REQUEST, as in Kafka (KAFKA-13609).
    """
    try:
        _check_names(configs, of_one_broker=of_one_broker, in_zookeeper_mode=config.is_in_zookeeper_mode)
        if of_one_broker:
            updated = config.updated(config.dynamic_default, configs)
        else:
            updated = config.updated(configs, config.dynamic_broker)
        _check_transition(config, updated)
        if of_one_broker:
            _check_tls(config, updated, configs)
    except ConfigError as error:
        raise ConfigError(error.message, INVALID_REQUEST) from None


def _check_names(configs: Mapping[str, str], *, of_one_broker: bool, in_zookeeper_mode: bool) -> None:
    definitions = (key_of(name) for name in configs if not name.startswith("listener.name."))
    fixed = {key.name for key in definitions if key is not None and key.update == READ_ONLY}
    if in_zookeeper_mode:
        fixed |= ZOOKEEPER_CONFIGS.keys() & configs.keys()
    only_of_listeners = "These security configs can be dynamically updated only per-listener using the listener prefix"
    _refuse(fixed, "Cannot update these configs dynamically", in_zookeeper_mode=in_zookeeper_mode)
    _refuse(
        {name for name in configs if name in CERTIFICATES_OF_LISTENER},
        only_of_listeners,
        in_zookeeper_mode=in_zookeeper_mode,
    )
    for name, text in configs.items():
        key = key_of(name)
        if key is not None:
            key.parse(text)
    if not of_one_broker:
        only_of_brokers = "Cannot update these configs at default cluster level, broker id must be specified"
        _refuse(
            {name for name in configs if _is_per_broker(name)}, only_of_brokers, in_zookeeper_mode=in_zookeeper_mode
        )


def _refuse(names: Iterable[str], why: str, *, in_zookeeper_mode: bool) -> None:
    """Kafka 3.9 prints the names as a set of Scala, and Kafka 4 as one of Java."""
    shown = ", ".join(sorted(names))
    if shown:
        raise ConfigError(f"{why}: Set({shown})" if in_zookeeper_mode else f"{why}: [{shown}]")


def _is_per_broker(name: str) -> bool:
    if name in BROKER_CONFIGS:
        return BROKER_CONFIGS[name].update == PER_BROKER
    base = base_of_listener_config(name)
    return base is not None and base not in _CLUSTER_WIDE_OF_LISTENER


def _check_transition(old: "BrokerValues", new: "BrokerValues") -> None:
    """Raise ConfigError for a change that a running broker cannot make, even if the new config is valid in itself."""
    changed = [name for name in BROKER_CONFIGS if old[name] != new[name]]
    if "listeners" in changed:
        raise ConfigError("listeners: a running broker does not open or close listeners; restart it")
    if "metric.reporters" in changed:
        raise _invalid_update(
            "Validation of dynamic config update of Set(metric.reporters) failed with class class "
            "kafka.server.DynamicMetricsReporters"
        )
    for name in changed:
        if name.startswith(("sasl.", "ssl.")) and name not in NEVER:
            raise ConfigError(f"{name}: a running broker does not change it; restart it")
    for name in sorted(old.originals.keys() | new.originals.keys()):
        if old.originals.get(name) != new.originals.get(name) and is_of_oauthbearer(
            name, base_of_listener_config(name)
        ):
            raise ConfigError(f"{name}: a running broker does not change it; restart it")
    for name in changed:
        if name in _POOLS:
            _check_pool(name, old[name], new[name])
    if "log.cleaner.threads" in changed:
        _check_cleaner_threads(old["log.cleaner.threads"], new["log.cleaner.threads"])
    _check_local_retention("log.local.retention.bytes", new["log.local.retention.bytes"], "log.retention.bytes", new)
    _check_local_retention("log.local.retention.ms", new["log.local.retention.ms"], "log.retention.ms", new)
    _check_copy_lag("bytes", new["log.retention.bytes"], new)
    _check_copy_lag("ms", new.log_retention_ms, new)


def _check_tls(old: "BrokerValues", new: "BrokerValues", configs: Mapping[str, str]) -> None:
    if any(listener.protocol in WITH_TLS for listener in old.listeners):
        from kpybroker.config import listener_tls

        listener_tls.check_change(old, new, configs)


def _invalid_update(why: str) -> ConfigError:
    """The error of Kafka's reconfigurable parts, which contains the exception in the place of the value."""
    return ConfigError(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {why} for configuration Invalid dynamic "
        "configuration"
    )


def _check_pool(name: str, old: int, new: int) -> None:
    failed = f"Dynamic thread count update validation failed for {name}={new}"
    if new < old // 2:
        raise _invalid_update(f"{failed}, value should be at least half the current value {old}")
    if new > old * 2:
        raise _invalid_update(f"{failed}, value should not be greater than double the current value {old}")


def _check_cleaner_threads(old: int, new: int) -> None:
    if new < 1:
        raise _invalid_update("Log cleaner threads should be at least 1")
    if new < old // 2:
        raise _invalid_update(f"Log cleaner threads cannot be reduced to less than half the current value {old}")
    if new > old * 2:
        raise _invalid_update(f"Log cleaner threads cannot be increased to more than double the current value {old}")


def _check_local_retention(name: str, local: int, total_name: str, config: "BrokerValues") -> None:
    total: int = config.log_retention_ms if total_name == "log.retention.ms" else config[total_name]
    if total <= -1 or local == -2:
        return
    if local == -1:
        why = f"Value must not be -1 as {total_name} value is set as {total}."
    elif local > total:
        why = f"Value must not be more than {total_name} property value: {total}"
    else:
        return
    raise _invalid_update(f"Invalid value {local} for configuration {name}: {why}")


def _check_copy_lag(unit: str, total: int, config: "BrokerValues") -> None:
    lag: int = config[f"log.remote.copy.lag.{unit}"]
    local: int = config[f"log.local.retention.{unit}"]
    kept = total if local == -2 else local
    if lag > 0 and kept != -1 and lag > kept:
        why = f"Value must not exceed log.local.retention.{unit} (effective value: {kept})"
        raise _invalid_update(f"Invalid value {lag} for configuration log.remote.copy.lag.{unit}: {why}")
