"""The login of a ZooKeeper client in Java's login configuration file: its section ``Client``. Pure.

The file is named by ``-Djava.security.auth.login.config=FILE`` in ``KAFKA_OPTS``, as for Kafka. It holds passwords, so
messages about it name positions and modules, and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.sasl import krb5_login
from kpybroker.sasl.jaas import KRB5_MODULE, BrokenJaas, Entry
from kpybroker.sasl.krb5_login import Krb5Login
from kpybroker.zookeeper.client.java_options import java_option

FILE_OPTION: Final = "-Djava.security.auth.login.config="
SECTION_OPTION: Final = "-Dzookeeper.sasl.clientconfig="
SWITCH_OPTION: Final = "-Dzookeeper.sasl.client="
SERVICE_OPTION: Final = "-Dzookeeper.sasl.client.username="
PRINCIPAL_OPTION: Final = "-Dzookeeper.server.principal="
SERVICE: Final = "zookeeper"
"""The first component of the principals of ZooKeeper's servers, unless an option says otherwise."""
DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_TOKEN: Final = re.compile(
    r'(?P<space>\s+|//[^\n]*|/\*.*?\*/)|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<sign>[{};=])|(?P<word>[^\s{};="]+)', re.DOTALL
)
_LONGEST: Final = 1 << 20


class BrokenJaasFile(ValueError):
    """The file does not say how to log in to ZooKeeper, in one line without a secret."""


class Login(NamedTuple):
    """A name and a password for DIGEST-MD5."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


class Place(NamedTuple):
    """The file and the section that the options of a JVM name, and the principal of the servers for Kerberos."""

    file: str
    section: str
    service: str = SERVICE
    host: str = ""
    """The second component of that principal; empty for the host of each server as ``zookeeper.connect`` has it."""


def place_of(kafka_opts: str) -> Place | None:
    """The place that ``KAFKA_OPTS`` names; None if there is no login."""
    if java_option(kafka_opts, SWITCH_OPTION).lower() == "false":
        return None
    file = java_option(kafka_opts, FILE_OPTION)
    if not file:
        return None
    service, host = java_option(kafka_opts, SERVICE_OPTION) or SERVICE, ""
    if principal := java_option(kafka_opts, PRINCIPAL_OPTION):
        service, _, host = principal.partition("@")[0].partition("/")
    return Place(file, java_option(kafka_opts, SECTION_OPTION) or "Client", service, host)


def login_of(text: str, section: str, service: str = SERVICE) -> Login | Krb5Login | None:
    """The login in a section of a file; None if the file has no such section. ``service`` is that of the servers, for
    Kerberos. Raises BrokenJaasFile."""
    if len(text) > _LONGEST:
        raise BrokenJaasFile(f"it is longer than {_LONGEST} characters")
    tokens = _tokens(text)
    found: Login | Krb5Login | None = None
    for name in tokens:
        module, options = _entry(tokens)
        if name == section:
            found = _login(module, options, service)
    return found


def _login(module: str, options: Mapping[str, str], service: str) -> Login | Krb5Login:
    if module == KRB5_MODULE:
        try:
            # as in Java, a serviceName is one of Kafka's clients and has no meaning here
            ours = {name: value for name, value in options.items() if name != "serviceName"}
            return krb5_login.of_client(Entry(module, ours), service)
        except BrokenJaas as error:
            raise BrokenJaasFile(str(error)) from None
    if module != DIGEST_MODULE:
        known = f"{DIGEST_MODULE} and {KRB5_MODULE} are"
        raise BrokenJaasFile(f"the login module {module[:128]!r} is not available for ZooKeeper; {known}")
    user, password = options.get("username", ""), options.get("password", "")
    if not user or not password:
        raise BrokenJaasFile(f"the login module has no {'password' if user else 'username'}")
    return Login(user, password)


def _entry(tokens: Iterator[str]) -> tuple[str, dict[str, str]]:
    """The first module of a section, and its options; further modules are passed over."""
    _expect(tokens, "{")
    first: tuple[str, dict[str, str]] | None = None
    for module in tokens:
        if module == "}":
            break
        _next(tokens)  # the control flag
        options: dict[str, str] = {}
        for key in tokens:
            if key == ";":
                break
            _expect(tokens, "=")
            options[key] = _next(tokens)
        first = first or (module, options)
    _expect(tokens, ";")
    if first is None:
        raise BrokenJaasFile("a section has no login module")
    return first


def _expect(tokens: Iterator[str], sign: str) -> None:
    if _next(tokens) != sign:
        raise BrokenJaasFile(f"a {sign!r} is missing")


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise BrokenJaasFile("it ends too early")
    return token


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise BrokenJaasFile(f"a string that does not end, at character {at + 1}")
        at = found.end()
        if found["space"] is None:
            quoted = found["text"]
            yield re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else found.group()
