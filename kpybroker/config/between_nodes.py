"""The protection of connections between nodes: the protocol of each kind, and the name by which this node logs in.

Brokers are dialled at ``inter.broker.listener.name``, controllers and voters at the first of
``controller.listener.names``. As in Kafka the credentials are the options ``username`` and ``password`` of the server's
own JAAS entry: ``listener.name.{listener}.{mechanism}.sasl.jaas.config``. For OAUTHBEARER they are tokens, whose source
is configured (`kpybroker.config.oauth`). Only text is read here.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.machines.config_def import ConfigError

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues
    from kpybroker.machines.sasl.jaas import JaasEntry
    from kpybroker.machines.sasl.krb5_login import Krb5Login
    from kpybroker.security.oauth.token_login import TokenLogin

BROKERS_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLERS_MECHANISM: Final = "sasl.mechanism.controller.protocol"


class Credentials(NamedTuple):
    """The name and password of a node, for one mechanism."""

    mechanism: str
    user: str
    password: str
    by_token: bool
    """Whether they are a delegation token's id and HMAC (the option ``tokenauth``)."""

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.user!r})"


class KerberosCredentials(NamedTuple):
    """The principal of a node, and its keytab or cache of tickets."""

    mechanism: str
    login: "Krb5Login"


class TokenCredentials(NamedTuple):
    """The source of the tokens of a node."""

    mechanism: str
    source: "TokenLogin"


NodeCredentials = Credentials | KerberosCredentials | TokenCredentials


class DialledNodes(NamedTuple):
    """A kind of nodes, as this one connects to them."""

    listener: str
    """The name of their listener."""
    protocol: str
    credentials: "NodeCredentials | None"
    """None without SASL."""

    @property
    def has_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")


def brokers(config: "BrokerValues") -> DialledNodes:
    """The way to brokers. Raises ConfigError."""
    listener, protocol = config.inter_broker_listener_name, config.inter_broker_protocol
    if not _has_login(protocol):
        return DialledNodes(listener, protocol, None)
    mechanism = config[BROKERS_MECHANISM]
    if mechanism not in config.of_listener(listener, "sasl.enabled.mechanisms"):
        raise ConfigError(
            f"requirement failed: {BROKERS_MECHANISM} must be included in sasl.enabled.mechanisms when SASL is used "
            "for inter-broker communication"
        )
    return DialledNodes(listener, protocol, _credentials(config, listener, BROKERS_MECHANISM))


def controllers(config: "BrokerValues") -> DialledNodes:
    """The way to controllers. Raises ConfigError. A node that is its whole quorum dials none."""
    listener = config.controller_listener_name
    protocol = config.listener_protocols.get(listener, "PLAINTEXT")
    if not _has_login(protocol):
        return DialledNodes(listener, protocol, None)
    return DialledNodes(listener, protocol, _credentials(config, listener, CONTROLLERS_MECHANISM))


def check(config: "BrokerValues") -> None:
    """Raise ConfigError if this node could log in nowhere."""
    if config.is_broker:
        brokers(config)
    controllers(config)


def warnings(config: "BrokerValues") -> list[str]:
    """Sentences about settings with which a quorum of several voters cannot begin, as on Apache Kafka."""
    if not config.is_controller or len(config.quorum_voters) == 1 or config.standalone:
        return []
    found = []
    mechanism, listener = config[CONTROLLERS_MECHANISM], config.controller_listener_name
    if _has_login(config.listener_protocols.get(listener, "")) and mechanism.startswith("SCRAM-"):
        found.append(
            f"{CONTROLLERS_MECHANISM}={mechanism}: voters know no user before a leader is elected, so they elect none "
            "if all of them start at once; use PLAIN, or SSL with client certificates"
        )
    early = config["early.start.listeners"]
    if config["authorizer.class.name"] and early is not None and listener not in early:
        found.append(
            f"early.start.listeners lacks {listener}: it is closed until the ACLs are loaded, which takes a leader, so "
            "voters elect none if all of them start at once"
        )
    return found


def _has_login(protocol: str) -> bool:
    return protocol.startswith("SASL_")


class JaasSetting(NamedTuple):
    """A JAAS config that is read: the configuration, the listener, and for messages the key and the reason."""

    config: "BrokerValues"
    listener: str
    key: str
    why: str


def _credentials(config: "BrokerValues", listener: str, mechanism_key: str) -> NodeCredentials:
    from kpybroker.config.logins import jaas_entry, jaas_key

    mechanism = config[mechanism_key]
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"{mechanism_key}={mechanism}: nodes can log in to each other by {', '.join(MECHANISMS)} only"
        )
    why = f"by it this node logs in to others ({mechanism_key}={mechanism})"
    asked = JaasSetting(config, listener, jaas_key(listener, mechanism), why)
    return MECHANISMS[mechanism](asked, mechanism, jaas_entry(config, listener, mechanism))


def _with_password(asked: JaasSetting, mechanism: str, entry: "JaasEntry") -> Credentials:
    options = entry.options
    user, password = options.get("username", ""), options.get("password", "")
    if not (user and password):
        raise ConfigError(f"{asked.key} has no {'password' if user else 'username'}: {asked.why}")
    if "\0" in user + password:
        raise ConfigError(f"{asked.key}: username and password must not hold the character NUL")
    return Credentials(mechanism, user, password, options.get("tokenauth", "").lower() == "true")


def _with_tickets(asked: JaasSetting, mechanism: str, entry: "JaasEntry") -> KerberosCredentials:
    from kpybroker.machines.sasl import krb5_login
    from kpybroker.machines.sasl.jaas import BrokenJaas

    service: str | None = asked.config.of_listener(asked.listener, krb5_login.SERVICE_KEY)
    try:
        return KerberosCredentials(mechanism, krb5_login.of_client(entry, service))
    except BrokenJaas as error:
        raise ConfigError(f"{asked.key}: {error}: {asked.why}") from None


def _with_tokens(asked: JaasSetting, mechanism: str, entry: "JaasEntry") -> TokenCredentials:
    from kpybroker.config.oauth import token_login

    return TokenCredentials(mechanism, token_login(asked.config, asked.listener, entry))


MECHANISMS: "Final[Mapping[str, Callable[[JaasSetting, str, JaasEntry], NodeCredentials]]]" = {
    "PLAIN": _with_password,
    "SCRAM-SHA-256": _with_password,
    "SCRAM-SHA-512": _with_password,
    "OAUTHBEARER": _with_tokens,
    "GSSAPI": _with_tickets,
}
"""The mechanisms by which a node can log in, each with a function that reads its JAAS config."""
