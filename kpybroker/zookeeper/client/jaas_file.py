"""The login of a ZooKeeper client in Java's login configuration file: its section ``Client``. Pure.

The file is named by ``-Djava.security.auth.login.config=FILE`` in ``KAFKA_OPTS``, as for Kafka. It holds passwords, so
messages about it name positions and modules, and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

FILE_OPTION: Final = "-Djava.security.auth.login.config="
SECTION_OPTION: Final = "-Dzookeeper.sasl.clientconfig="
SWITCH_OPTION: Final = "-Dzookeeper.sasl.client="
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
    """The file and the section that the options of a JVM name."""

    file: str
    section: str


def place_of(kafka_opts: str) -> Place | None:
    """The place that ``KAFKA_OPTS`` names; None if there is no login."""
    options = kafka_opts.split()
    file = section = ""
    for option in options:
        if option.startswith(SWITCH_OPTION) and option.removeprefix(SWITCH_OPTION).lower() == "false":
            return None
        if option.startswith(FILE_OPTION):
            file = option.removeprefix(FILE_OPTION).strip("\"'")
        elif option.startswith(SECTION_OPTION):
            section = option.removeprefix(SECTION_OPTION)
    return Place(file, section or "Client") if file else None


def login_of(text: str, section: str) -> Login | None:
    """The login in a section of a file; None if the file has no such section. Raises BrokenJaasFile."""
    if len(text) > _LONGEST:
        raise BrokenJaasFile(f"it is longer than {_LONGEST} characters")
    tokens = _tokens(text)
    found = None
    for name in tokens:
        module, options = _entry(tokens)
        if name == section:
            found = _login(module, options)
    return found


def _login(module: str, options: Mapping[str, str]) -> Login:
    if module != DIGEST_MODULE:
        raise BrokenJaasFile(f"the login module {module[:128]!r} is not available for ZooKeeper; {DIGEST_MODULE} is")
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
