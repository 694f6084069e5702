"""The logins that a listener with SASL demands: its mechanisms, their JAAS configs, and limits.

A config is read with the prefixes of its listener and its mechanism, as in Kafka (``listener.name.LISTENER.`` and
``listener.name.LISTENER.MECHANISM.``, in lower case). ``sasl.jaas.config`` needs both: it has no value for all
listeners. Without it, a login module is read from the login file of a JVM (`kpybroker.machines.sasl.jaas_file`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.sasl import kerberos_names, krb5_login
from kpybroker.machines.sasl.jaas import MODULES, BrokenJaas, JaasEntry, parse
from kpybroker.machines.sasl.jaas_file import LoginFile

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues
    from kpybroker.config.oauth import TokenRules

OAUTHBEARER: Final = "OAUTHBEARER"
SERVED_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, "GSSAPI")
"""The mechanisms with which clients can log in."""

OF_MECHANISM: Final = ("connections.max.reauth.ms", "sasl.jaas.config")
"""The configs that can be set for one mechanism."""


class MechanismConfig(NamedTuple):
    """The config of one mechanism on one listener."""

    name: str
    entry: JaasEntry
    reauth_ms: int
    """``connections.max.reauth.ms``; 0 for no limit."""
    value: Callable[[str], Any]
    """The value of any other config on this listener, by its name."""
    tokens: "TokenRules | None" = None
    """The check of tokens; None for other mechanisms than OAUTHBEARER."""


class ListenerLogins(NamedTuple):
    """The config of the logins on one listener."""

    mechanisms: tuple[MechanismConfig, ...]
    max_receive_bytes: int


def logins_of(config: "BrokerValues", listener: str) -> ListenerLogins:
    """The config of the logins on a listener. Raises ConfigError in one line that says which key is to be set."""
    key = "sasl.enabled.mechanisms"
    names: tuple[str, ...] = config.of_listener(listener, key)
    if not names:
        raise ConfigError(f"{key}: the listener {listener} enables no mechanism, so nobody could log in")
    for name in names:
        if name not in SERVED_MECHANISMS:
            known = "is not available yet" if name in MODULES else "is not known"
            raise ConfigError(
                f"{key}: the mechanism {name!r} of the listener {listener} {known}; "
                f"listener.name.{listener.lower()}.{key} can be set to {', '.join(SERVED_MECHANISMS)}"
            )
    usable = [name for name in names if not _has_no_module(config, listener, name)]
    mechanisms = tuple(_mechanism(config, listener, name) for name in dict.fromkeys(usable or names))
    for mechanism in mechanisms:
        if mechanism.name in _CHECKS:
            _CHECKS[mechanism.name](mechanism, jaas_key(listener, mechanism.name))
    return ListenerLogins(mechanisms, config.of_listener(listener, "sasl.server.max.receive.size"))


def _has_no_module(config: "BrokerValues", listener: str, name: str) -> bool:
    """Whether the section of the login file for a listener lacks the login module of a mechanism.

    As on Apache Kafka the node starts, and nobody can log in by this mechanism.
    """
    _, entries = config.login_file.of_listener(listener)
    is_missing = bool(entries) and all(entry.module != MODULES[name] for entry in entries)
    return is_missing and jaas_key(listener, name) not in config.originals


def _mechanism(config: "BrokerValues", listener: str, name: str) -> MechanismConfig:
    entry = jaas_entry(config, listener, name)
    reauth_ms = max(0, config.of_listener(listener, "connections.max.reauth.ms", name))
    value = partial(config.of_listener, listener)
    if name != OAUTHBEARER:
        return MechanismConfig(name, entry, reauth_ms, value)
    from kpybroker.config.oauth import token_rules

    return MechanismConfig(name, entry, reauth_ms, value, token_rules(config, listener, entry))


def warnings(config: "BrokerValues") -> list[str]:
    """Sentences about listeners that accept more tokens than their owner may think, or fewer logins."""
    found: list[str] = []
    advertised = {each.name: each for each in config.advertised_listeners}
    for listener in config.listeners:
        if not listener.protocol.startswith("SASL_"):
            continue
        logins = logins_of(config, listener.name)
        served = {each.name for each in logins.mechanisms}
        for name in config.of_listener(listener.name, "sasl.enabled.mechanisms"):
            if name not in served:
                section, _ = config.login_file.of_listener(listener.name)
                found.append(
                    f"nobody can log in to the listener {listener.name} by {name}: the section {section} of "
                    f"{config.login_file.path} has no {MODULES[name]}"
                )
        for each in logins.mechanisms:
            if each.tokens is not None:
                from kpybroker.config import oauth

                found += oauth.warnings(listener, advertised.get(listener.name, listener), each.tokens)
    return found


def check_mechanisms_named(config: "BrokerValues", listener: str) -> None:
    """Raise ConfigError for a config of a mechanism that is none: it would have no effect."""
    prefix = f"listener.name.{listener.lower()}."
    for name in config.originals:
        if not name.startswith(prefix):
            continue
        mechanism, dot, key = name.removeprefix(prefix).partition(".")
        if dot and key in OF_MECHANISM and mechanism.upper() not in MODULES:
            raise ConfigError(f"{name}: {mechanism!r} is no mechanism; known are {', '.join(MODULES).lower()}")


def jaas_key(listener: str, mechanism: str) -> str:
    """The key of the JAAS config of a mechanism on a listener."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def jaas_entry(config: "BrokerValues", listener: str, mechanism: str) -> JaasEntry:
    """The login module of a mechanism on a listener, with its options: of its config, else of the login file. Raises
    ConfigError."""
    key = jaas_key(listener, mechanism)
    text = config.originals.get(key)
    if text is None:
        return _entry_in_file(config.login_file, listener, mechanism)
    module = MODULES[mechanism]
    try:
        entry = parse(text)
    except BrokenJaas as why:
        raise ConfigError(f"{key}: {why}") from None
    if entry.module != module:
        raise ConfigError(f"{key}: the login module of {mechanism} is {module}")
    return entry


def _entry_in_file(file: LoginFile, listener: str, mechanism: str) -> JaasEntry:
    module = MODULES[mechanism]
    section, entries = file.of_listener(listener)
    for entry in entries:
        if entry.module == module:
            return entry
    key = jaas_key(listener, mechanism)
    if file.why_unusable:
        raise ConfigError(f"{key} is missing, and {file.why_unusable}")
    if not file.path:
        raise ConfigError(f"{key} is missing; set it to a text such as: {module} required;")
    missing = f"its section {section} has no {module}" if entries else f"it has no section {section}"
    raise ConfigError(f"{key} is missing, and {file.path} does not replace it: {missing}")


def _check_kerberos(config: MechanismConfig, key: str) -> None:
    try:
        krb5_login.of_server(config.entry, config.value(krb5_login.SERVICE_KEY))
    except BrokenJaas as why:
        raise ConfigError(f"{key}: {why}") from None
    try:
        kerberos_names.ShortNamer(config.value(kerberos_names.KEY), "")
    except kerberos_names.BrokenRules as why:
        raise ConfigError(str(why)) from None


_CHECKS: Final[Mapping[str, Callable[[MechanismConfig, str], None]]] = {krb5_login.MECHANISM: _check_kerberos}
"""The demands of mechanisms on their configs, each with the key of the JAAS config for messages."""
