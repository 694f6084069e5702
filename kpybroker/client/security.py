"""The protection of a client's connections, from the properties of Kafka's clients: TLS, and a login. Pure.

`security_of` reads the properties; nothing is opened here. Files are read, and contexts made, when the first connection
needs them (`kpybroker.client.encryption`). No text of an error holds a secret.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from kpybroker.client.bad_property import BadProperty
from kpybroker.machines.sasl import jaas, plain
from kpybroker.machines.sasl.exchange import ClientExchange
from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.machines.sasl.scram import MECHANISMS as SCRAM_MECHANISMS
from kpybroker.machines.sasl.scram import TOKEN_AUTH
from kpybroker.machines.sasl.scram_client import ScramClient

PLAINTEXT: Final = "PLAINTEXT"
SASL: Final = "SASL_PLAINTEXT"
SSL: Final = "SSL"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL, SASL_SSL)
PROTOCOL_KEY: Final = "security.protocol"
MECHANISM_KEY: Final = "sasl.mechanism"
JAAS_KEY: Final = "sasl.jaas.config"
USER_KEY: Final = "sasl.username"
PASSWORD_KEY: Final = "sasl.password"
CA_KEY: Final = "ssl.ca.location"
CERTIFICATE_KEY: Final = "ssl.certificate.location"
KEY_KEY: Final = "ssl.key.location"
EXAMPLE: Final = f'{jaas.SCRAM_MODULE} required username="me" password="secret";'


class ClientLogin(Protocol):
    """A user, and the mechanism by which it proves who it is."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""

    @property
    def may_block(self) -> bool:
        """Whether its exchanges take long."""

    @property
    def identity(self) -> str:
        """The user, for messages."""

    @property
    def to_check(self) -> str:
        """The things to check after a refusal."""

    def exchange(self, nonce: str, host: str, /) -> ClientExchange:
        """The client's half of one login at a host; ``nonce`` is random and used once."""


class PasswordLogin(NamedTuple):
    """A user with a password, and the mechanism to prove it by."""

    mechanism: str
    user: str
    password: str
    by_token: bool = False
    """Whether they are the id and the HMAC of a delegation token (KIP-48)."""

    def __repr__(self) -> str:
        return f"Login({self.mechanism!r}, {self.user!r})"

    @property
    def may_block(self) -> bool:
        """Whether its exchanges take long: SCRAM hashes the password as often as the server says."""
        return self.mechanism.startswith("SCRAM-")

    @property
    def identity(self) -> str:
        """The user, for messages."""
        return f"{'delegation token' if self.by_token else 'user'} {self.user!r}"

    @property
    def to_check(self) -> str:
        """The things to check after a refusal."""
        return f"user and password ({JAAS_KEY})"

    def exchange(self, nonce: str, _host: str) -> ClientExchange:
        """The client's half of one login at a host; ``nonce`` is random and used once."""
        if self.mechanism == plain.NAME:
            return PlainClient(self.user, self.password)
        return ScramClient(SCRAM_MECHANISMS[self.mechanism], self.user, self.password, nonce, by_token=self.by_token)


class ClientSecurity(NamedTuple):
    """The protection of a client's connections."""

    tls: Mapping[str, str] | None = None
    """The properties ``ssl.*``; None for connections without TLS."""
    login: ClientLogin | None = None

    def __repr__(self) -> str:
        return f"Security(tls={None if self.tls is None else sorted(self.tls)}, login={self.login})"

    @property
    def protocol(self) -> str:
        """The name of the security protocol."""
        return protocol_of(has_tls=self.tls is not None, has_login=self.login is not None)


NO_SECURITY: Final = ClientSecurity()


def protocol_of(*, has_tls: bool, has_login: bool) -> str:
    """The name of a security protocol by its two properties."""
    return PROTOCOLS[has_tls + 2 * has_login]


def security_of(properties: Mapping[str, object]) -> ClientSecurity:
    """The protection that properties ask for, under the names of `client_configs`. Raises BadProperty."""
    configured = {key: str(value) for key, value in properties.items() if value is not None}
    protocol = configured.get(PROTOCOL_KEY, PLAINTEXT).upper()
    if protocol not in PROTOCOLS:
        raise BadProperty(f"{PROTOCOL_KEY} is {', '.join(PROTOCOLS[:-1])} or {PROTOCOLS[-1]}, not {protocol!r}")
    has_tls, has_login = protocol in (SSL, SASL_SSL), protocol in (SASL, SASL_SSL)
    for prefix, is_used in (("ssl.", has_tls), ("sasl.", has_login)):
        unused = sorted(key for key in configured if key.startswith(prefix))
        if unused and PROTOCOL_KEY not in configured:
            wanted = protocol_of(has_tls=has_tls or prefix == "ssl.", has_login=has_login or prefix == "sasl.")
            if not is_used:
                raise BadProperty(f"{unused[0]} has no effect without {PROTOCOL_KEY}: set {PROTOCOL_KEY}={wanted}")
    tls = {key: value for key, value in configured.items() if key.startswith("ssl.")} if has_tls else None
    if tls is not None:
        _check_files(tls)
    return ClientSecurity(tls, _login(configured, protocol) if has_login else None)


def _login(configured: Mapping[str, str], protocol: str) -> ClientLogin:
    if MECHANISM_KEY not in configured:
        raise BadProperty(f"{PROTOCOL_KEY}={protocol} needs a {MECHANISM_KEY}: {', '.join(MECHANISMS)}")
    mechanism = configured[MECHANISM_KEY].upper()
    if mechanism not in MECHANISMS:
        raise BadProperty(f"{MECHANISM_KEY}={mechanism}: this client logs in by {', '.join(MECHANISMS)}")
    return MECHANISMS[mechanism](
        configured, mechanism, _entry(configured[JAAS_KEY], mechanism) if JAAS_KEY in configured else None
    )


def _entry(text: str, mechanism: str) -> jaas.JaasEntry:
    try:
        entry = jaas.parse(text)
    except jaas.BrokenJaas as why:
        raise BadProperty(f"{JAAS_KEY}: {why}") from None
    if entry.module != jaas.MODULES[mechanism]:
        raise BadProperty(f"{JAAS_KEY}: {MECHANISM_KEY}={mechanism} needs {jaas.MODULES[mechanism]}")
    return entry


def _with_password(configured: Mapping[str, str], mechanism: str, entry: jaas.JaasEntry | None) -> PasswordLogin:
    if entry is not None:
        user, password, by_token = _from_jaas(entry.options, mechanism)
    elif USER_KEY in configured and PASSWORD_KEY in configured:
        user, password, by_token = configured[USER_KEY], configured[PASSWORD_KEY], False
    else:
        raise BadProperty(
            f"{MECHANISM_KEY}={mechanism} needs a user: set {JAAS_KEY}={EXAMPLE} or {USER_KEY} and {PASSWORD_KEY}"
        )
    if not user or not password:
        raise BadProperty(f"the {'user' if not user else 'password'} of the login is empty")
    return PasswordLogin(mechanism, user, password, by_token)


def _with_tickets(configured: Mapping[str, str], _mechanism: str, entry: jaas.JaasEntry | None) -> ClientLogin:
    from kpybroker.client.kerberos_login import kerberos_login

    return kerberos_login(configured, entry)


def _with_tokens(configured: Mapping[str, str], _mechanism: str, entry: jaas.JaasEntry | None) -> ClientLogin:
    from kpybroker.client.token_user import token_user

    return token_user(configured, {} if entry is None else entry.options)


_Reader = Callable[[Mapping[str, str], str, jaas.JaasEntry | None], ClientLogin]
MECHANISMS: Final[Mapping[str, _Reader]] = {
    plain.NAME: _with_password,
    **dict.fromkeys(SCRAM_MECHANISMS, _with_password),
    "OAUTHBEARER": _with_tokens,
    "GSSAPI": _with_tickets,
}
"""The mechanisms by which a client can log in, each with a function that reads the properties."""


def _from_jaas(options: Mapping[str, str], mechanism: str) -> tuple[str, str, bool]:
    for name in ("username", "password"):
        if name not in options:
            raise BadProperty(f"{JAAS_KEY} names no {name}; it has the form {EXAMPLE}")
    by_token = mechanism in SCRAM_MECHANISMS and options.get(TOKEN_AUTH, "").lower() == "true"
    return options["username"], options["password"], by_token


def _check_files(tls: Mapping[str, str]) -> None:
    """Raise BadProperty if librdkafka's names of files stand beside Kafka's for the same, or one lacks the other."""
    if CA_KEY in tls and any(key.startswith("ssl.truststore.") for key in tls):
        raise BadProperty(f"{CA_KEY} and ssl.truststore.* are both set; give one of them")
    if (CERTIFICATE_KEY in tls) != (KEY_KEY in tls):
        raise BadProperty(f"{CERTIFICATE_KEY} and {KEY_KEY} belong together")
    if CERTIFICATE_KEY in tls and any(key.startswith("ssl.keystore.") for key in tls):
        raise BadProperty(f"{CERTIFICATE_KEY} and ssl.keystore.* are both set; give one of them")
