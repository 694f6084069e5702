"""The TLS of listeners, as configured: their settings, and which of them may change while the broker runs (KIP-226).

A listener's own ``listener.name.LISTENER.ssl.…`` counts before ``ssl.…``. With SASL_SSL only the listener's own
``ssl.client.auth`` counts, as in Kafka.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kpybroker.config.synonyms import CERTIFICATES_OF_LISTENER
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.endpoints import WITH_TLS
from kpybroker.security.tls.settings import NO_CLIENT_AUTH, TlsError, TlsSettings, read_settings

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues
    from kpybroker.security.tls.pem import KeyEntry

_CLIENT_AUTH: Final = "ssl.client.auth"
_NO_ENGINES: Final = "ssl.engine.factory.class"


def settings_of(config: "BrokerValues", listener: str, protocol: str) -> TlsSettings:
    """The TLS settings of a listener as a server."""
    settings = read_settings(partial(config.of_listener, listener))
    if protocol == "SASL_SSL" and f"listener.name.{listener.lower()}.{_CLIENT_AUTH}" not in config.originals:
        return settings._replace(client_auth=NO_CLIENT_AUTH)
    return settings


def check(config: "BrokerValues") -> None:
    """Raise ConfigError for TLS settings that belong to no listener with TLS, or that need Java. Reads no file."""
    for name in config.originals:
        listener, _, base = name.removeprefix("listener.name.").partition(".")
        if name.startswith("listener.name.") and base.startswith("ssl."):
            protocol = config.listener_protocols.get(listener.upper())
            if protocol is None:
                raise ConfigError(f"{name}: there is no listener {listener}; see listener.security.protocol.map")
            if protocol not in WITH_TLS:
                raise ConfigError(
                    f"{name}: the listener {listener.upper()} is {protocol}, without TLS; remove this key, or change "
                    "listener.security.protocol.map"
                )
    for listener_ in config.listeners:
        if listener_.protocol not in WITH_TLS:
            continue
        if config.of_listener(listener_.name, _NO_ENGINES):
            raise ConfigError(f"{_NO_ENGINES}: classes written in Java cannot be loaded")
        settings_of(config, listener_.name, listener_.protocol)


def warnings(config: "BrokerValues") -> list[str]:
    """Sentences about TLS settings without effect."""
    ignored = [
        listener.name
        for listener in config.listeners
        if listener.protocol == "SASL_SSL" and config[_CLIENT_AUTH] != NO_CLIENT_AUTH
        if f"listener.name.{listener.name.lower()}.{_CLIENT_AUTH}" not in config.originals
    ]
    if not ignored:
        return []
    own = f"listener.name.{ignored[0].lower()}.{_CLIENT_AUTH}"
    return [f"{_CLIENT_AUTH} has no effect on SASL_SSL listeners ({', '.join(ignored)}); set {own}"]


def check_change(old: "BrokerValues", new: "BrokerValues", changed: Mapping[str, str]) -> None:
    """Raise ConfigError if listeners cannot take over their new settings while they are open. Reads their stores.

    ``changed`` are the configs of this broker after the change.
    """
    for listener in old.listeners:
        if listener.protocol not in WITH_TLS:
            continue
        prefix = f"listener.name.{listener.name.lower()}.ssl."
        before = settings_of(old, listener.name, listener.protocol)
        after = settings_of(new, listener.name, listener.protocol)
        fixed = [
            name
            for name in sorted(changed)
            if name.startswith(prefix) and "ssl." + name.removeprefix(prefix) not in CERTIFICATES_OF_LISTENER
            if old.originals.get(name) != new.originals.get(name)
        ]
        if fixed:
            raise ConfigError(f"{fixed[0]}: a running listener does not change it; restart the broker")
        if before == after and not any(name.startswith(prefix) for name in changed):
            continue
        try:
            _check_stores(before, after, new)
        except TlsError as error:
            raise ConfigError(
                f"Validation of dynamic config update of SSLFactory failed for listener {listener.name}: {error}"
            ) from None


def _check_stores(before: TlsSettings, after: TlsSettings, config: "BrokerValues") -> None:
    from kpybroker.security.tls.contexts import server_context_of
    from kpybroker.security.tls.stores import has_key_store, has_trust_store, read_key_store

    if has_key_store(before) and not has_key_store(after):
        raise TlsError("Cannot remove the SSL keystore from an existing listener for which a keystore was configured.")
    if has_trust_store(after) and not has_trust_store(before):
        raise TlsError("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
    entries = read_key_store(after)
    server_context_of(after, entries)
    try:
        former = read_key_store(before)
    except TlsError:
        return  # its files are gone; the listener compares with what it has read, when it takes over the new ones
    check_entries(former, entries, config)


def check_entries(before: "tuple[KeyEntry, ...]", after: "tuple[KeyEntry, ...]", config: "BrokerValues") -> None:
    """Raise TlsError if a new key store names another owner than the one before, unless that is allowed."""
    from kpybroker.security.tls.names import names_of

    may_change_dn, may_change_san = config["ssl.allow.dn.changes"], config["ssl.allow.san.changes"]
    if may_change_dn and may_change_san:
        return
    if len(before) != len(after):
        raise TlsError(
            f"Keystore entries do not match, existing store contains {len(before)} entries, new store contains "
            f"{len(after)} entries"
        )
    for old, new in zip(before, after, strict=True):
        was, would_be = names_of(old.chain[0]), names_of(new.chain[0])
        if was.subject != would_be.subject and not may_change_dn:
            raise TlsError(
                f"Keystore DistinguishedName does not match: existing={{DN={was.subject}}}, "
                f"new={{DN={would_be.subject}}}; ssl.allow.dn.changes=true allows it"
            )
        if not was.alternatives <= would_be.alternatives and not may_change_san:
            raise TlsError(
                "Keystore SubjectAltNames do not match: the new certificate lacks some of the existing one; "
                "ssl.allow.san.changes=true allows it"
            )
