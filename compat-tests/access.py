"""How clients reach brokers: addresses and properties, in the words of each client library."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
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
        found: dict[str, Any] = {"bootstrap.servers": self.servers, "log_level": 0}
        if self.properties:
            found["security.protocol"] = self.properties["security.protocol"]
        if "ssl.truststore.location" in self.properties:
            found["ssl.ca.location"] = self.properties["ssl.truststore.location"]
        if "sasl.mechanism" in self.properties:
            user, password = self._credentials
            found |= {
                "sasl.mechanism": self.properties["sasl.mechanism"],
                "sasl.username": user,
                "sasl.password": password,
            }
        return found

    @property
    def kafka_python(self) -> dict[str, Any]:
        """For kafka-python and aiokafka, whose SSLContext the latter takes from ``ssl_cafile`` by itself."""
        found: dict[str, Any] = {"bootstrap_servers": self.servers.split(",")}
        if self.properties:
            found["security_protocol"] = self.properties["security.protocol"]
        if "ssl.truststore.location" in self.properties:
            found["ssl_cafile"] = self.properties["ssl.truststore.location"]
        if "sasl.mechanism" in self.properties:
            user, password = self._credentials
            found |= {
                "sasl_mechanism": self.properties["sasl.mechanism"],
                "sasl_plain_username": user,
                "sasl_plain_password": password,
            }
        return found

    @property
    def java(self) -> str:
        """The content of a properties file, without the addresses."""
        return "".join(f"{key}={value}\n" for key, value in self.properties.items())

    @property
    def _credentials(self) -> tuple[str, str]:
        found = CREDENTIALS.search(self.properties["sasl.jaas.config"])
        if found is None:
            raise ValueError("sasl.jaas.config has no username with its password behind it")
        return found[1], found[2]


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
