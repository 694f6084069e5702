"""How clients reach brokers: addresses and properties, in the words of each client library."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import create_default_context
from typing import Any, Final

SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
CREDENTIALS: Final = re.compile(r'username="([^"]*)" password="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Access:
    """``properties`` are those of Java's clients, beside the addresses; without any, clients use PLAINTEXT."""

    servers: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def librdkafka(self) -> dict[str, Any]:
        """For confluent-kafka."""
        words = ("security.protocol", "ssl.ca.location", "sasl.mechanism", "sasl.username", "sasl.password")
        return {"bootstrap.servers": self.servers, "log_level": 0, **self._in(words)}

    @property
    def kafka_python(self) -> dict[str, Any]:
        """For kafka-python."""
        words = ("security_protocol", "ssl_cafile", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
        return {"bootstrap_servers": self.servers.split(","), **self._in(words)}

    @property
    def java(self) -> str:
        """The content of a properties file, without the addresses."""
        return "".join(f"{key}={value}\n" for key, value in self.properties.items())

    @property
    def aiokafka(self) -> dict[str, Any]:
        """For aiokafka."""
        found = self.kafka_python
        authority = found.pop("ssl_cafile", None)
        return found if authority is None else {**found, "ssl_context": create_default_context(cafile=authority)}

    def save(self, file: Path) -> Path:
        """Write a properties file with the addresses. Return it."""
        file.write_text(f"bootstrap.servers={self.servers}\n{self.java}")
        return file

    @classmethod
    def load(cls, file: Path) -> "Access":
        """The access that was saved."""
        properties = dict(line.split("=", 1) for line in file.read_text().splitlines())
        return cls(properties.pop("bootstrap.servers"), properties)

    def _in(self, words: tuple[str, str, str, str, str]) -> dict[str, str]:
        """The properties in the words of a library: protocol, authority, mechanism, user and password."""
        protocol, authority, mechanism, user, password = words
        found = {protocol: self.properties["security.protocol"]} if self.properties else {}
        if "ssl.truststore.location" in self.properties:
            found[authority] = self.properties["ssl.truststore.location"]
        if "sasl.mechanism" in self.properties:
            credentials = CREDENTIALS.search(self.properties["sasl.jaas.config"])
            if credentials is None:
                raise ValueError("sasl.jaas.config has no username with its password behind it")
            found |= {mechanism: self.properties["sasl.mechanism"], user: credentials[1], password: credentials[2]}
        return found


def over_tls(servers: str, authority: Path) -> Access:
    """Encrypted, without a login."""
    return Access(servers, {"security.protocol": "SSL", **_trusting(authority)})


def logged_in(
    servers: str, user: str, password: str, *, mechanism: str = "SCRAM-SHA-512", authority: Path | None = None
) -> Access:
    """With a login, and encrypted if there is an authority to trust."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    login = {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }
    if authority is None:
        return Access(servers, {"security.protocol": "SASL_PLAINTEXT", **login})
    return Access(servers, {"security.protocol": "SASL_SSL", **_trusting(authority), **login})


def _trusting(authority: Path) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
