"""Settings that a node must not start with: those that ask for protection or for a feature that this broker does not
have.

It is worse to run unprotected where the owner asked for protection than not to run. So a listener is refused if its
protocol or its mechanisms are not served, and so is every key about security that is not honoured and would have an
effect even if all listeners are PLAINTEXT. Keys that only listeners with TLS or SASL read have no effect without such a
listener on Apache Kafka either: they cause a warning, like everything else without effect. Each new feature removes its
lines from here.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kpybroker.config.authorizer_configs import ACL_AUTHORIZER, OF_OWN_ZOOKEEPER
from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.honoured import HONOURED, NEVER, REFUSED
from kpybroker.config.own_configs import OWN_CONFIGS
from kpybroker.config.quota_configs import QUOTA_CONFIGS
from kpybroker.config.synonyms import base_of_listener_config
from kpybroker.config.zookeeper_configs import (
    CONNECT,
    MIGRATE,
    NEWEST_PROTOCOL,
    REFUSED_IN_ZOOKEEPER_MODE,
    ZOOKEEPER_CONFIGS,
    why_no_effect,
)
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.endpoints import WITH_TLS

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues

_SECURITY_PREFIXES: Final = (
    "allow.everyone.if.no.acl.found",
    "authorizer.",
    "connections.max.reauth.ms",
    "delegation.token.",
    "listener.name.",
    "principal.",
    "sasl.",
    "security.",
    "ssl.",
    "super.users",
)
# Read by listeners with TLS or SASL alone.
_INERT_OF_SASL: Final = ("connections.max.reauth.ms", "sasl.")
_INERT_PREFIXES: Final = (*_INERT_OF_SASL, "ssl.")
_OF_LISTENER: Final = (
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.server.max.receive.size",
)
"""The security configs that can be set for one listener."""
_HANDLERS: Final = ("sasl.server.callback.handler.class", "sasl.login.callback.handler.class")
"""Configs that replace a part of logins by a Java class. Those of OAUTHBEARER are known by name."""
_OF_OAUTHBEARER: Final = ("sasl.oauthbearer.", "sasl.login.refresh.", "sasl.login.retry.", *_HANDLERS)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_AUTHORIZER: Final = "authorizer.class.name"
_OF_AUTHORIZER: Final = ("super.users", "allow.everyone.if.no.acl.found")
"""The keys that only the authorizer reads; Kafka does not define them."""
_OF_CLIENTS: Final = ("security.protocol", "sasl.mechanism")
"""Configs of clients that compose files for Kafka's images give to brokers, where they have no effect."""
_MISSING_FEATURES: Final = [name for name in REFUSED if not name.startswith(("sasl.", "ssl."))]
_CLASSES_OF_LOGINS: Final = ("sasl.client.callback.handler.class", "sasl.login.class")
_REPLICA_SELECTORS: Final = (
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
_JMX_REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"
# Keys of old brokers, and what stands in their place.
_REMOVED: Final = {
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "broker.id.generation.enable": "node.id",
    "control.plane.listener.name": "controller.listener.names",
    "host.name": "listeners",
    "inter.broker.protocol.version": "the feature metadata.version",
    "log.message.format.version": "nothing; there is one format now",
    "log.message.timestamp.difference.max.ms": (
        "log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "port": "listeners",
}


def check_names(originals: Mapping[str, str]) -> None:
    """Raise ConfigError for a key that is about security but not understood."""
    for name in originals:
        if name in _OF_AUTHORIZER:
            if not originals.get(_AUTHORIZER):
                raise ConfigError(f"{name}: without {_AUTHORIZER} everybody may do everything; set it or remove {name}")
            continue
        if name in OF_OWN_ZOOKEEPER and originals.get(_AUTHORIZER) == ACL_AUTHORIZER:
            continue
        if name in BROKER_CONFIGS or name in _OF_CLIENTS or not name.startswith(_SECURITY_PREFIXES):
            continue
        base = base_of_listener_config(name)
        if base is not None and base in BROKER_CONFIGS and not base.startswith(_SECURITY_PREFIXES):
            continue
        if base in _OF_LISTENER or (base is not None and base in BROKER_CONFIGS and base.startswith("ssl.")):
            continue
        known = base in BROKER_CONFIGS
        if known and is_of_oauthbearer(name, base):
            continue
        if base in _HANDLERS:
            raise ConfigError(f"{name}: callbacks written in Java cannot be loaded; remove it")
        why = "it cannot be set for one listener" if known else "this security setting is not understood"
        raise ConfigError(f"{name}: {why}; correct or remove it")


def shown_name(name: str) -> str:
    """The name of any config in a line for people: one line, and not too long, whatever was typed."""
    return (name if name.isprintable() else ascii(name))[:250]


def is_of_oauthbearer(name: str, base: str | None) -> bool:
    """Whether a config of a listener is one of OAUTHBEARER. ``base`` is its name for all listeners."""
    if base in _HANDLERS:
        return name.endswith(f".oauthbearer.{base}")
    return base is not None and base.startswith(_OF_OAUTHBEARER)


def check_security(config: "BrokerValues") -> None:
    """Raise ConfigError if any listener or setting asks for a protection that this broker does not have."""
    for listener in [*config.listeners, *config.advertised_listeners, *config.advertised_controller_listeners]:
        if listener.protocol not in _PROTOCOLS:
            raise ConfigError(f"listeners: {listener} uses {listener.protocol}; known are {', '.join(_PROTOCOLS)}")
    for name in _explicit(config, BROKER_CONFIGS):
        if name in HONOURED or name == _AUTHORIZER:
            continue
        if name.startswith(_SECURITY_PREFIXES) and not name.startswith(_INERT_PREFIXES):
            raise ConfigError(f"{name}: classes written in Java cannot be loaded; remove it")
    _check_tls(config)
    _check_logins(config)


def _check_tls(config: "BrokerValues") -> None:
    if _has_tls(config) or any(".ssl." in name for name in config.originals):
        from kpybroker.config import listener_tls

        listener_tls.check(config)


def _has_tls(config: "BrokerValues") -> bool:
    return any(listener.protocol in WITH_TLS for listener in config.listeners)


def _check_logins(config: "BrokerValues") -> None:
    """Raise ConfigError if clients could not log in, or not as the owner wants, on a listener with SASL."""
    with_sasl = [listener for listener in config.listeners if listener.protocol.startswith("SASL_")]
    # A broker logs in to listeners of controllers, which it does not have itself.
    names = [name.lower() for name, protocol in config.listener_protocols.items() if protocol.startswith("SASL_")]
    for name in config.originals:
        is_of_login = name.endswith(_OF_LISTENER) or is_of_oauthbearer(name, base_of_listener_config(name))
        if name.startswith("listener.name.") and is_of_login:
            of = name.removeprefix("listener.name.").partition(".")[0]
            if of not in names:
                raise ConfigError(f"{name}: there is no listener {of!r} that uses SASL")
    if not with_sasl:
        return
    from kpybroker.config.logins import check_mechanisms_named, logins_of

    for name in _explicit(config, _HANDLERS):
        prefixed = f"listener.name.LISTENER.oauthbearer.{name}, in lower case"
        raise ConfigError(f"{name}: callbacks written in Java cannot be loaded; for OAUTHBEARER set {prefixed}")
    for name in _explicit(config, _CLASSES_OF_LOGINS):
        raise ConfigError(f"{name}: {REFUSED[name]}; remove it")
    for listener in with_sasl:
        logins_of(config, listener.name)
        check_mechanisms_named(config, listener.name)


def check_features(config: "BrokerValues") -> list[str]:
    """Raise ConfigError for a missing feature. Return sentences about unknown keys and about settings that have no
    effect."""
    _refuse_missing_features(config)
    _check_zookeeper_mode(config)
    return [
        *_unknown_keys(config, in_zookeeper_mode=config.is_in_zookeeper_mode or config.migrates_from_zookeeper),
        *_foreign_classes(config),
        *_without_effect(config),
        *_without_effect_in_zookeeper_mode(config),
    ]


def _refuse_missing_features(config: "BrokerValues") -> None:
    for name in _explicit(config, _MISSING_FEATURES):
        raise ConfigError(f"{name}: {REFUSED[name]}")


def _check_zookeeper_mode(config: "BrokerValues") -> None:
    if not config.is_in_zookeeper_mode:
        _check_migrating_node(config)
        return
    if config.migrates_from_zookeeper:
        _check_migrating_broker(config)
    for name, why in REFUSED_IN_ZOOKEEPER_MODE.items():
        if config.is_set(name) and config[name] != (BROKER_CONFIGS.get(name) or ZOOKEEPER_CONFIGS[name]).default:
            raise ConfigError(f"{name}: {why}; remove it")
    protocol = config["inter.broker.protocol.version"]
    if not protocol.startswith(NEWEST_PROTOCOL):
        raise ConfigError(
            f"inter.broker.protocol.version={protocol}: brokers in ZooKeeper mode speak {NEWEST_PROTOCOL} here; raise "
            "it on all brokers first"
        )


def _check_migrating_node(config: "BrokerValues") -> None:
    """Check the configs of a node in KRaft mode that names ZooKeeper: only a controller does, for a migration."""
    if not config.migrates_from_zookeeper:
        if config.originals.get(CONNECT):
            raise ConfigError(f"{CONNECT} together with process.roles migrates a cluster to KRaft; set {MIGRATE} too")
        return
    if config.is_broker:
        raise ConfigError(
            f"{MIGRATE}: a broker in KRaft mode is migrated already, and a node that is broker and controller cannot "
            f"migrate a cluster; remove {MIGRATE} and {CONNECT}, or the role broker"
        )
    if not config.originals.get(CONNECT):
        raise ConfigError(f"If using `{MIGRATE}` in KRaft mode, `{CONNECT}` must also be set.")


def _check_migrating_broker(config: "BrokerValues") -> None:
    """Check that a broker in ZooKeeper mode can find the controllers that it will follow."""
    if not (config.quorum_voters or config.quorum_bootstrap_servers):
        raise ConfigError(
            f"If using {MIGRATE}, controller.quorum.bootstrap.servers or controller.quorum.voters must name the "
            "controllers of the KRaft quorum"
        )
    if not config.controller_listener_names:
        raise ConfigError(
            "controller.listener.names must not be empty when running in ZooKeeper migration mode: "
            f"{list(config.controller_listener_names)}"
        )
    if config["broker.id"] < 0:
        raise ConfigError(f"broker.id: with {MIGRATE} it must be set; use the id in meta.properties")
    if config["broker.id"] in config.quorum_voters:
        raise ConfigError(f"broker.id: {config['broker.id']} is the id of a controller in controller.quorum.voters")


def _without_effect_in_zookeeper_mode(config: "BrokerValues") -> list[str]:
    if not config.is_in_zookeeper_mode or config.migrates_from_zookeeper:
        return []
    known = {**BROKER_CONFIGS, **OWN_CONFIGS}
    names: dict[str, list[str]] = {}
    for name in sorted(known):
        why = why_no_effect(name) if config.is_set(name) and config[name] != known[name].default else None
        if why is not None:
            names.setdefault(why, []).append(name)
    return [f"without effect in ZooKeeper mode, where {why}: {', '.join(each)}" for why, each in names.items()]


def _explicit(config: "BrokerValues", names: Iterable[str]) -> list[str]:
    """The names among ``names`` that were given a value that is not the default."""
    return [name for name in names if config.is_set(name) and config[name] != BROKER_CONFIGS[name].default]


def _unknown_keys(config: "BrokerValues", *, in_zookeeper_mode: bool) -> list[str]:
    warnings = []
    of_store = config["remote.log.storage.manager.impl.prefix"]
    of_metadata = config["remote.log.metadata.manager.impl.prefix"]
    if any(name.startswith(of_metadata) for name in config.originals):
        from kpybroker.config.remote_metadata import unknown_names  # not of a plain start

        warnings += unknown_names(config)
    for name in sorted(config.originals):
        if name in BROKER_CONFIGS or name in OWN_CONFIGS or name in _OF_AUTHORIZER:
            continue
        if name.startswith((of_store, of_metadata)):
            continue
        if in_zookeeper_mode and (name in ZOOKEEPER_CONFIGS or name in OF_OWN_ZOOKEEPER):
            continue
        if base_of_listener_config(name) in BROKER_CONFIGS:
            continue
        if name in QUOTA_CONFIGS:
            if name in config.static:
                warnings.append(f"{name} has no effect in a file; it is set by AlterConfigs")
            continue
        if name in _REMOVED:
            warnings.append(f"{name} is no longer a config; its place was taken by {_REMOVED[name]}")
            continue
        from difflib import get_close_matches

        similar = get_close_matches(name, BROKER_CONFIGS, n=1, cutoff=0.8)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        warnings.append(f"{shown_name(name)} is not a config that is known here, it is ignored{hint}")
    return warnings


def _foreign_classes(config: "BrokerValues") -> list[str]:
    warnings = [
        f"metric.reporters: {reporter} is a Java class, it is ignored; metrics are served over HTTP at /metrics"
        for reporter in config["metric.reporters"]
        if reporter != _JMX_REPORTER
    ]
    selector = config["replica.selector.class"]
    if selector and selector not in _REPLICA_SELECTORS:
        warnings.append(f"replica.selector.class: {selector} is not known, consumers read from leaders")
    return warnings


def _without_effect(config: "BrokerValues") -> list[str]:
    asks = [name for name in _explicit(config, BROKER_CONFIGS) if name not in NEVER]
    has_sasl = any(listener.protocol.startswith("SASL_") for listener in config.listeners)
    has_tls = _has_tls(config)
    inert = [] if has_sasl else [name for name in asks if name.startswith(_INERT_OF_SASL)]
    inert += [] if has_tls else [name for name in asks if name.startswith("ssl.")]
    names = [name for name in asks if name not in HONOURED]
    # Those of internal topics get their value from the defaults of a node alone, nobody asked for them.
    yet = [name for name in names if name not in inert and not name.endswith((".replication.factor", ".min.isr"))]
    is_open = not has_sasl and not has_tls
    why = "every listener is PLAINTEXT, open to every client that reaches it" if is_open else "no listener reads them"
    warnings = [f"{why}; without effect, as on Apache Kafka: {', '.join(inert)}"] if inert else []
    if has_tls:
        from kpybroker.config import listener_tls

        warnings += listener_tls.warnings(config)
    if has_sasl:
        from kpybroker.config import logins

        warnings += logins.warnings(config)
    if has_sasl and config.is_set("sasl.jaas.config"):
        used = "listener.name.LISTENER.MECHANISM.sasl.jaas.config, in lower case"
        warnings.append(f"sasl.jaas.config without a listener and a mechanism is ignored; a server reads {used}")
    if has_sasl or config["authorizer.class.name"]:
        from kpybroker.config import between_nodes

        warnings += between_nodes.warnings(config)
    return [*warnings, f"without effect yet: {', '.join(yet)}"] if yet else warnings
