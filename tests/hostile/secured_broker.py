"""A broker whose clients log in, with a plain listener beside for an honest client.

The listeners by name: PLAINTEXT, LOGIN (SASL_PLAINTEXT), ENCRYPTED (SSL, TLS 1.2 and 1.3) and BOTH (SASL_SSL).
"""

from collections.abc import Mapping
from pathlib import Path

from watched import WatchedBroker

from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from oracle import free_port
from support.certificates import Authority

USER, PASSWORD = "alice", "a password that nobody guesses"
LOGIN, ENCRYPTED, BOTH = "LOGIN", "ENCRYPTED", "BOTH"
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", LOGIN: "SASL_PLAINTEXT", ENCRYPTED: "SSL", BOTH: "SASL_SSL"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256")


class SecuredBroker(WatchedBroker):
    """The broker, with the port of each listener, and the authority that its certificate is from."""

    def __init__(self, properties: Mapping[str, str] | None = None, *, directory: Path) -> None:
        self.ports = {name: free_port() for name in PROTOCOLS}
        self.authority = Authority()
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        jaas = {
            "plain": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
            "scram-sha-256": f"{SCRAM_MODULE} required;",
        }
        directory.mkdir(parents=True, exist_ok=True)
        secured = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items())]
            ),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.issue().save_pem(directory / "broker.pem")),
            **{
                f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config": text
                for name in (LOGIN, BOTH)
                for mechanism, text in jaas.items()
            },
        }
        super().__init__({**secured, **(properties or {})}, directory=directory)
        self.port = self.ports["PLAINTEXT"]
