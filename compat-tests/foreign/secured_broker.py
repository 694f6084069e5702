"""A broker for suites that play security: beside PLAINTEXT it has listeners with TLS, with logins, and with both.

Their addresses, the certificate to trust and the user are in the environment of the suites (`environment`). The user is
a super user; ACLs are kept, and what none covers is open to all, as the fixtures of kafka-python expect it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka.admin

from oracle import BrokerProcess, free_port
from oracle.process import HOST
from support.access import PLAIN_MODULE, SCRAM_MODULE
from support.certificates import Authority
from support.targets import TARGETS

requests: Any = confluent_kafka.admin
USER, PASSWORD = "alice", "alice-secret"
PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The listeners, named like their protocols."""
MECHANISMS: Final = {
    "SCRAM-SHA-256": requests.ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": requests.ScramMechanism.SCRAM_SHA_512,
}
PATIENCE_S: Final = 60


@contextmanager
def secured_broker(target: str, configs: Mapping[str, str], directory: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of its PLAINTEXT listener, and the environment that names the others."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    trusted = authority.save(directory / "ca-cert")
    keys = authority.issue().save_pem(directory / "keys.pem")
    ports = {protocol: free_port() for protocol in PROTOCOLS}
    broker = TARGETS[target]({**properties(keys), **configs}, directory=directory / "broker")
    own: dict[str, str] = broker.properties  # type: ignore[attr-defined]
    for key in ("listeners", "advertised.listeners"):
        own[key] += "".join(f",{protocol}://{HOST}:{port}" for protocol, port in ports.items())
    with broker:
        add_users(broker)
        found = {f"FOREIGN_{protocol}": f"{HOST}:{port}" for protocol, port in ports.items()}
        found |= {"FOREIGN_CA": str(trusted), "FOREIGN_USER": USER, "FOREIGN_PASSWORD": PASSWORD}
        yield broker.bootstrap_servers, found


def properties(keys: Path) -> dict[str, str]:
    """The configuration of the listeners, apart from their addresses."""
    found = {
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in ("PLAINTEXT", *PROTOCOLS))
        + ",CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER}",
        "allow.everyone.if.no.acl.found": "true",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        found[f"{prefix}.plain.sasl.jaas.config"] = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        for mechanism in MECHANISMS:
            found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    return found


def add_users(broker: BrokerProcess) -> None:
    """The user, for all mechanisms."""
    admin = requests.AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for mechanism in MECHANISMS.values():  # one request changes one mechanism of a user
        info = requests.ScramCredentialInfo(mechanism, 4096)
        added = requests.UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([added])[USER].result(PATIENCE_S)
