"""The settings by which clients of each kind connect to a cluster: kafka-python, aiokafka, librdkafka and Java.

They are for programs of users, written into files or passed to constructors. Pure, except that aiokafka's need an SSL
context, which reads its files.
"""

from typing import Any, Final, NamedTuple

from kpybroker.client.security import PLAINTEXT, SASL, SASL_SSL, SSL
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE

PASSWORD_KEY: Final = "sasl.password"
_WITH_TLS: Final = (SSL, SASL_SSL)
_WITH_LOGIN: Final = (SASL, SASL_SSL)


class NotPossible(Exception):
    """A kind of clients cannot connect like this. The message is one line."""


class ConnectionSettings(NamedTuple):
    """A way to connect, and a user that does."""

    server: str
    """``host:port``."""
    protocol: str = PLAINTEXT
    mechanism: str = ""
    """The SASL mechanism; empty without a login."""
    user: str = ""
    password: str = ""
    authority: str = ""
    """The path of the PEM file with the certificate of the issuer; empty without TLS."""
    keys: str = ""
    """The path of the PEM file with the client's own key and certificate; empty if it shows none."""
    by_token: bool = False
    """Whether user and password are the id and the HMAC of a delegation token."""

    def __repr__(self) -> str:
        return f"ConnectionSettings({self.server!r}, {self.protocol}, {self.mechanism}, {self.user!r})"

    @property
    def has_tls(self) -> bool:
        return self.protocol in _WITH_TLS

    @property
    def has_login(self) -> bool:
        return self.protocol in _WITH_LOGIN

    def kafka_python(self) -> dict[str, str]:
        """The keywords of kafka-python's clients. Raises NotPossible."""
        found = {"bootstrap_servers": self.server, "security_protocol": self.protocol, **self._python_login()}
        if self.has_tls:
            found["ssl_cafile"] = self.authority
            if self.keys:
                found |= {"ssl_certfile": self.keys, "ssl_keyfile": self.keys}
        return found

    def aiokafka(self) -> dict[str, Any]:
        """The keywords of aiokafka's clients, with an SSL context where they need one. Raises NotPossible."""
        found: dict[str, Any] = {
            "bootstrap_servers": self.server,
            "security_protocol": self.protocol,
            **self._python_login(),
        }
        if self.has_tls:
            import ssl

            found["ssl_context"] = context = ssl.create_default_context(cafile=self.authority)
            if self.keys:
                context.load_cert_chain(self.keys)
        return found

    def confluent(self) -> dict[str, str]:
        """The properties of librdkafka, as for confluent-kafka's clients. Raises NotPossible."""
        found = {"bootstrap.servers": self.server, "security.protocol": self.protocol}
        if self.has_login:
            self._refuse_token("librdkafka")
            found |= {"sasl.mechanisms": self.mechanism, "sasl.username": self.user, PASSWORD_KEY: self.password}
        if self.has_tls:
            found["ssl.ca.location"] = self.authority
            if self.keys:
                found |= {"ssl.certificate.location": self.keys, "ssl.key.location": self.keys}
        return found

    def java(self) -> dict[str, str]:
        """The properties of Java's clients and tools, and of Spark after ``kafka.``."""
        found = {"bootstrap.servers": self.server, "security.protocol": self.protocol}
        if self.has_login:
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
        if self.has_tls:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority}
            if self.keys:
                found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.keys}
        return found

    def _python_login(self) -> dict[str, str]:
        if not self.has_login:
            return {}
        self._refuse_token("kafka-python and aiokafka")
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

    def _refuse_token(self, clients: str) -> None:
        if self.by_token:
            raise NotPossible(f"{clients} cannot log in by a delegation token; clients in Java can, and Spark")

    def _jaas(self) -> str:
        module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
        options = {"username": self.user, "password": self.password}
        if self.by_token:
            options["tokenauth"] = "true"
        return login_module(module, options)


def login_module(module: str, options: dict[str, str]) -> str:
    """A text of ``sasl.jaas.config``."""
    return f"{module} required {' '.join(f'{name}={_quoted(value)}' for name, value in options.items())};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
