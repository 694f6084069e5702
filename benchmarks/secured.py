"""A second broker of a side, with a listener without security and two with: TLS, and logins by SCRAM-SHA-256.

The certificate is of the curve P-256, and the cipher suite is what both ends take without being asked.
"""

import ssl
import time
import uuid
from collections.abc import Mapping
from typing import Final, Self

from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks.raw.asking import Address, Conversation
from benchmarks.raw.scram import LoginError, log_in
from benchmarks.sides import ADMIN_TIMEOUT_S, HOST, Kpybroker, Side
from oracle import ApacheKafka, BrokerProcess, free_port
from support.certificates import Authority

TLS, LOGINS = "TLS", "LOGINS"
USER, PASSWORD = "bench", "a secret"
ITERATIONS: Final = 4096
TRIES: Final = 50


class Secured(Side):
    """The broker, as a side of its own: its topics are made and its CPU is read in the usual way."""

    def __init__(self, side: Side) -> None:
        super().__init__(side.letter, side.program, side.directory, side.another(f"secured-{uuid.uuid4().hex[:8]}"))
        self._ports = {TLS: free_port(), LOGINS: free_port()}
        directory = self.broker.directory
        authority = Authority()
        authorities = authority.save(directory / "authority.pem")
        keys = authority.issue().save_pem(directory / "broker.pem")
        self.security: Mapping[str, str] = {"security.protocol": "SSL", "ssl.ca.location": str(authorities)}
        """The settings of librdkafka for the listener with TLS."""
        self.security_of_java: Mapping[str, str] = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authorities),
        }
        """The settings of Java's clients for it."""
        self.tls = ssl.create_default_context(cafile=str(authorities))
        """The same for Python."""
        self._configure_listeners(
            self.broker,
            {
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,"
                "LOGINS:SASL_PLAINTEXT",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(keys),
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.logins.scram-sha-256.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
            },
        )

    def _configure_listeners(self, broker: BrokerProcess, properties: Mapping[str, str]) -> None:
        assert isinstance(broker, Kpybroker | ApacheKafka), f"{self.program} has no listeners with security"
        usual = broker.properties.get("listeners", f"PLAINTEXT://{broker.bootstrap_servers}")
        listeners = ",".join([usual, *(f"{name}://{HOST}:{port}" for name, port in self._ports.items())])
        broker.properties |= {**properties, "listeners": listeners, "advertised.listeners": listeners}

    def __enter__(self) -> Self:
        super().__enter__()
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
        wanted = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        self._admin.alter_user_scram_credentials([wanted])[USER].result(ADMIN_TIMEOUT_S)
        self._wait_for_user()
        return self

    def _wait_for_user(self) -> None:
        for _ in range(TRIES):
            try:
                return self.log_in()
            except LoginError as error:
                refused = error
                time.sleep(0.05)
        raise refused

    @property
    def address_with_tls(self) -> Address:
        return Address(HOST, self._ports[TLS])

    @property
    def bootstrap_with_tls(self) -> str:
        return f"{HOST}:{self._ports[TLS]}"

    def log_in(self) -> None:
        """Log in on a connection of its own. Raises LoginError."""
        with Conversation(Address(HOST, self._ports[LOGINS])) as conversation:
            log_in(conversation, USER, PASSWORD)


def secured(side: Side) -> Secured:
    """The secured broker of a side, which is started when it is first asked for."""
    if TLS not in side.others:
        side.others[TLS] = Secured(side).__enter__()
    found = side.others[TLS]
    assert isinstance(found, Secured)
    return found
