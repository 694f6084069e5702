"""Java's login configuration file, which ``-Djava.security.auth.login.config=FILE`` in ``KAFKA_OPTS`` names. Pure.

A section holds login modules. As in Kafka, a server reads the section ``LISTENER.KafkaServer`` of a listener (its name
in lower case), else ``KafkaServer``; a client reads ``KafkaClient``, and a client of ZooKeeper ``Client``. A
``sasl.jaas.config`` counts before the file. The file holds passwords, so messages about it give positions and names of
modules, and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.sasl.jaas import LONGEST_CHARS, BrokenJaas, JaasEntry, JaasToken, options_of, tokens_of

FILE_OPTION: Final = "-Djava.security.auth.login.config="
SERVER_SECTION: Final = "KafkaServer"
CLIENT_SECTION: Final = "KafkaClient"
_PROPERTY: Final = re.compile(r"\$\{([^}]*)\}")


class LoginFile(NamedTuple):
    """The sections of a file, each with its login modules in their order."""

    path: str
    sections: Mapping[str, tuple[JaasEntry, ...]]
    why_unusable: str = ""
    """The reason in one line if it cannot be read. As in Java, that counts only for logins that need the file."""

    def of_listener(self, listener: str) -> tuple[str, tuple[JaasEntry, ...]]:
        """The section that counts for a listener, with its login modules; none without one."""
        own = f"{listener.lower()}.{SERVER_SECTION}"
        name = own if own in self.sections else SERVER_SECTION
        return name, self.sections.get(name, ())


NO_LOGIN_FILE: Final = LoginFile("", {})


def java_option(kafka_opts: str, option: str) -> str:
    """The value of the last of these options of a JVM; empty if there is none."""
    found = [each.removeprefix(option).strip("\"'") for each in kafka_opts.split() if each.startswith(option)]
    return found[-1] if found else ""


def path_in(kafka_opts: str) -> str:
    """The path of the login file that the options of a JVM name; empty if they name none. It may be a URL, and a second
    equals sign means that no other file counts."""
    return java_option(kafka_opts, FILE_OPTION).removeprefix("=").removeprefix("file:")


def parse_file(text: str, kafka_opts: str = "") -> dict[str, tuple[JaasEntry, ...]]:
    """The sections of a file. ``${NAME}`` in a value is the system property ``-DNAME=`` of ``kafka_opts``. Raises
    BrokenJaas."""
    if len(text) > LONGEST_CHARS:
        raise BrokenJaas(f"it is longer than {LONGEST_CHARS} characters")
    sections: dict[str, tuple[JaasEntry, ...]] = {}
    tokens = tokens_of(text)
    for name in tokens:
        if name.kind == "end":
            return sections
        if name.kind != "text" or name.text in sections:
            again = "a section is there twice" if name.text else "expected the name of a section"
            raise BrokenJaas(f"{again}, {name.place}")
        _expect(tokens, "{")
        sections[name.text] = tuple(_entries(tokens, kafka_opts))
        _expect(tokens, ";")
        if not sections[name.text]:
            raise BrokenJaas(f"a section has no login module, {name.place}")
    return sections


def _entries(tokens: Iterator[JaasToken], kafka_opts: str) -> Iterator[JaasEntry]:
    """The login modules up to the end of a section."""
    for module in tokens:
        if module.kind == "}":
            return
        if module.kind != "text":
            raise BrokenJaas(f"expected a login module, {module.place}")
        options = options_of(tokens)
        yield JaasEntry(module.text, {key: _expanded(value, kafka_opts) for key, value in options.items()})


def _expanded(value: str, kafka_opts: str) -> str:
    def property_of(found: re.Match[str]) -> str:
        if found[1] == "/":
            return "/"
        configured = java_option(kafka_opts, f"-D{found[1]}=")
        if not configured:
            raise BrokenJaas(f"a value names the system property {found[1][:128]!r}, and KAFKA_OPTS has none")
        return configured

    return _PROPERTY.sub(property_of, value)


def _expect(tokens: Iterator[JaasToken], sign: str) -> None:
    found = next(tokens)
    if found.kind != sign:
        raise BrokenJaas(f"a {sign!r} is missing, {found.place}")
