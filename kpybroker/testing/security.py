"""The security of a broker in a test: its users, certificates, ACLs, quotas and tokens, and clients' settings for each.

A test describes it by `Security`; `Access` has it. The broker then has a listener for each protocol beside PLAINTEXT,
which serves the test's own calls: there everybody is a super user.
"""

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.cli.connection_settings import ConnectionSettings, login_module
from kpybroker.client import acl_requests, quota_requests, token_requests, user_requests
from kpybroker.client.client import Client, ClientSettings
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import security_of
from kpybroker.config.properties import written_properties
from kpybroker.machines.authorization.resources import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from kpybroker.machines.sasl.scram import MECHANISMS, MIN_ITERATIONS
from kpybroker.testing.faults import OWN_CLIENT_ID

if TYPE_CHECKING:
    from kpybroker.security.tls.issuing import Authority

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_MECHANISM: Final = "SCRAM-SHA-256"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USUAL_DAYS: Final = 365.0


class Acl(NamedTuple):
    """An ACL, as `allow` and `deny` describe it."""

    user: str
    operations: tuple[str, ...]
    kind: ResourceType
    name: str
    is_prefix: bool
    allows: bool

    def entries(self) -> list[acl_requests.AclBinding]:
        """The ACL of each operation."""
        pattern = PatternType.PREFIXED if self.is_prefix else PatternType.LITERAL
        permission = Permission.ALLOW if self.allows else Permission.DENY
        return [
            acl_requests.AclBinding(
                self.kind, self.name, pattern, f"User:{self.user}", WILDCARD, _operation(each), permission
            )
            for each in self.operations
        ]


def allow(user: str, *operations: str, **resource: str | bool) -> Acl:
    """Let a user do this: ``allow("alice", "READ", "DESCRIBE", topic="orders")``. ``*`` is every user.

    The resource is one of ``topic``, ``group``, ``transactional_id`` by name, or ``cluster=True``; a name that ends in
    ``*`` covers all names that begin so.
    """
    return _acl(user, operations, resource, allows=True)


def deny(user: str, *operations: str, **resource: str | bool) -> Acl:
    """Forbid a user to do this. The arguments are those of `allow`."""
    return _acl(user, operations, resource, allows=False)


class Security:
    """A description. ``Broker(security=Security(users={"alice": "secret"}))`` has what it says."""

    def __init__(
        self,
        users: Mapping[str, str] | Iterable[str] = (),
        *,
        acls: Iterable[Acl] | None = None,
        super_users: Iterable[str] = (),
        quotas: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """``users``: names with passwords, or names alone. They log in by PLAIN and SCRAM.

        ``acls``: the permissions; None for a broker without an authorizer, where everybody may do everything.
        ``quotas``: by users, such as ``{"alice": {"producer_byte_rate": 1024}}``.
        """
        self.users = dict(users) if isinstance(users, Mapping) else {name: secrets.token_urlsafe(12) for name in users}
        self.acls = None if acls is None else tuple(acls)
        self.super_users = tuple(super_users)
        self.quotas = {name: dict(values) for name, values in (quotas or {}).items()}

    def __repr__(self) -> str:
        return f"Security({sorted(self.users)})"


class Access:
    """The security of a broker that runs, for a blocking test. Raises KafkaError where the broker refuses something."""

    def __init__(self, security: Security, host: str, port_of: Callable[[str], int]) -> None:
        """``port_of`` returns the port of a listener, by its protocol."""
        self.security = security
        self._host = host
        self._port_of = port_of
        self._passwords = dict(security.users)
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    @cached_property
    def authority(self) -> "Authority":
        """The certificate authority of the broker and its clients."""
        try:
            from kpybroker.security.tls.issuing import Authority
        except ImportError:
            raise ImportError(
                "a broker with security makes certificates by the library cryptography: pip install "
                "'kpybroker[security]'"
            ) from None
        return Authority.made("kpybroker in a test", datetime.now(UTC))

    def config(self) -> dict[str, str]:
        """The configs of the broker."""
        keys = self.authority.issue("broker", ["localhost", "127.0.0.1", "::1", self._host], datetime.now(UTC))
        plain = login_module(PLAIN_MODULE, {f"user_{name}": text for name, text in self.security.users.items()})
        scram = login_module(SCRAM_MODULE, {})
        found = {
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": keys.key,
            "ssl.keystore.certificate.chain": keys.certificate,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.issued.certificate,
            "listener.name.ssl.ssl.client.auth": "requested" if self.security.acls is None else "required",
            "delegation.token.secret.key": secrets.token_urlsafe(),
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            found[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
            for mechanism in MECHANISMS:
                found[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = scram
        if self.security.acls is not None:
            found["authorizer.class.name"] = AUTHORIZER
            found["super.users"] = ";".join(f"User:{name}" for name in ("ANONYMOUS", *self.security.super_users))
        return found

    def prepare(self) -> None:
        """Give a broker that has just started what the description says."""
        self._directory = self._directory or tempfile.TemporaryDirectory(prefix="kpybroker-")
        for name, password in self.security.users.items():
            self.add_user(name, password)
        if self.security.acls:
            self.add_acls(*self.security.acls)
        for name, values in self.security.quotas.items():
            self.set_quotas(name, **values)

    def close(self) -> None:
        """Remove the files."""
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.cleanup()

    # Settings of clients

    def client(
        self, user: str, protocol: str = "SASL_SSL", mechanism: str = DEFAULT_MECHANISM, *, password: str | None = None
    ) -> ConnectionSettings:
        """The settings of a user's clients: ``KafkaProducer(**broker.access.client("alice").kafka_python())``.

        ``password`` is another one than the user's, for tests of what is refused.
        """
        known = self._passwords.get(user, "") if password is None else password
        return ConnectionSettings(
            self.server(protocol),
            protocol,
            mechanism,
            user,
            known,
            self.path("ca.pem", self.authority.issued.certificate),
        )

    def certificate(self, name: str, days: float = USUAL_DAYS) -> ConnectionSettings:
        """The settings of clients with a certificate of their own, over SSL: their user is ``User:CN=`` and the name.

        With fewer than 0 ``days`` it has expired.
        """
        pem = self.authority.issue(name, [], datetime.now(UTC), days).pem
        keys = self.path(f"{secrets.token_hex(8)}.pem", pem)
        return ConnectionSettings(
            self.server("SSL"), "SSL", authority=self.path("ca.pem", self.authority.issued.certificate), keys=keys
        )

    def token(self, owner: str, protocol: str = "SASL_SSL") -> ConnectionSettings:
        """The settings of clients that log in by a new delegation token of a user."""
        from base64 import b64encode

        with self._client(self.client(owner, protocol).java()) as client:
            token = token_requests.create(client, None, [], None)
        login = self.client(owner, protocol)
        return login._replace(user=token.token_id, password=b64encode(token.hmac).decode(), by_token=True)

    def java_file(self, settings: ConnectionSettings) -> Path:
        """A properties file with these settings, for Java's clients and tools, and for ``--command-config``."""
        return Path(self.path(f"{secrets.token_hex(8)}.properties", written_properties(settings.java())))

    def server(self, protocol: str) -> str:
        """``host:port`` of a listener."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port_of(protocol)}"

    def path(self, name: str, text: str) -> str:
        """The path of a file with this text, which exists as long as the broker runs."""
        if self._directory is None:
            raise RuntimeError("the broker is not running")
        path = Path(self._directory.name) / name
        if not path.exists():
            path.touch(0o600)
            path.write_text(text)
        return str(path)

    # Changes

    def add_user(self, name: str, password: str) -> None:
        """Let a user log in by SCRAM, with this password alone. (Those of PLAIN are fixed at the start.)"""
        with self._own_client() as client:
            for mechanism in MECHANISMS.values():
                user_requests.set_password(client, name, password, mechanism, MIN_ITERATIONS)
        self._passwords[name] = password

    def add_acls(self, *acls: Acl) -> None:
        """Add permissions: ``broker.access.add_acls(allow("bob", "READ", topic="orders"))``."""
        with self._own_client() as client:
            acl_requests.create(client, [entry for acl in acls for entry in acl.entries()])

    def set_quotas(self, user: str, **values: float | None) -> None:
        """Set quotas of a user, such as ``producer_byte_rate=1024``; None removes one."""
        sets = {key: value for key, value in values.items() if value is not None}
        removes = [key for key, value in values.items() if value is None]
        with self._own_client() as client:
            quota_requests.alter(client, {"user": user}, sets, removes)

    def _own_client(self) -> Client:
        return self._client({"bootstrap.servers": self.server("PLAINTEXT")})

    def _client(self, properties: Mapping[str, str]) -> Client:
        reported = {key: value for key, value in properties.items() if key != "bootstrap.servers"}
        protection = ConnectionProtection(security_of(reported)) if reported else None
        settings = ClientSettings(client_id=OWN_CLIENT_ID, protection=protection)
        return Client(properties["bootstrap.servers"], settings=settings)


class AsyncAccess:
    """The awaited form of `Access`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.client, self.certificate = access.client, access.certificate
        self.java_file, self.server = access.java_file, access.server

    @property
    def authority(self) -> "Authority":
        """The certificate authority of the broker and its clients."""
        return self._access.authority

    async def token(self, owner: str, protocol: str = "SASL_SSL") -> ConnectionSettings:
        """The settings of clients that log in by a new delegation token of a user."""
        return await asyncio.to_thread(self._access.token, owner, protocol)

    async def add_user(self, name: str, password: str) -> None:
        """Let a user log in by SCRAM, with this password alone."""
        await asyncio.to_thread(self._access.add_user, name, password)

    async def add_acls(self, *acls: Acl) -> None:
        """Add permissions."""
        await asyncio.to_thread(self._access.add_acls, *acls)

    async def set_quotas(self, user: str, **values: float | None) -> None:
        """Set quotas of a user; None removes one."""
        await asyncio.to_thread(lambda: self._access.set_quotas(user, **values))


_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}


def _acl(user: str, operations: tuple[str, ...], resource: Mapping[str, Any], *, allows: bool) -> Acl:
    if len(resource) != 1 or not operations:
        raise ValueError('an ACL has operations and one resource, such as allow("alice", "READ", topic="orders")')
    ((kind, name),) = resource.items()
    if kind not in _RESOURCES:
        raise ValueError(f"{kind} is no resource of an ACL; there are {', '.join(_RESOURCES)}")
    for each in operations:
        _operation(each)
    text = CLUSTER_NAME if kind == "cluster" else str(name)
    is_prefix = len(text) > 1 and text.endswith(WILDCARD)
    return Acl(
        user, operations, _RESOURCES[kind], text.removesuffix(WILDCARD) if is_prefix else text, is_prefix, allows
    )


def _operation(name: str) -> AclOperation:
    wanted = name.upper().replace("-", "_")
    try:
        return AclOperation[wanted]
    except KeyError:
        raise ValueError(f"{name} is no operation of an ACL; there are {', '.join(AclOperation.__members__)}") from None
