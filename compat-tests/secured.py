"""Clusters whose nodes speak TLS and SASL among themselves, of either program or of both: settings and certificates."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from certificates import Authority
from clusters import NodeOf, Place
from oracle import BrokerProcess, free_port

NODE, PASSWORD = "node", "node's secret"
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
"""The login module of each mechanism."""


def jaas_of(mechanism: str, user: str = NODE, password: str = PASSWORD) -> str:
    """The JAAS config of a node that logs in so, and lets all nodes log in so."""
    known = f' user_{user}="{password}"' if mechanism == "PLAIN" else ""
    return f'{MODULES[mechanism]} required username="{user}" password="{password}"{known};'


def between_nodes(
    directory: Path,
    mechanism: str = "PLAIN",
    protocol: str = "SASL_SSL",
    listeners: Sequence[str] = ("INTERNAL", "CONTROLLER"),
) -> dict[str, str]:
    """The properties by which nodes use this protocol on these listeners. Clients have PLAINTEXT."""
    authority = Authority()
    keys = authority.issue().save_pem(directory / "node.pem")
    trusted = authority.save(directory / "authority.pem")
    of_listeners = {
        f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config": jaas_of(mechanism) for name in listeners
    }
    protocols = ["PLAINTEXT:PLAINTEXT", *(f"{name}:{protocol}" for name in listeners)]
    with_sasl = {
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        **of_listeners,
    }
    return {
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "INTERNAL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        **(with_sasl if protocol.startswith("SASL_") else {}),
    }


def with_internal_listener(node_of: NodeOf) -> NodeOf:
    """Nodes with one more listener, for brokers."""

    def node(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
        internal = f"INTERNAL://{place.host}:{free_port()}"
        more = {name: f"{properties[name]},{internal}" for name in ("listeners", "advertised.listeners")}
        return node_of(place, {**properties, **more}, directory)

    return node
