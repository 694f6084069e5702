"""Nodes that speak TLS and SASL, of either program or of both: settings and certificates.

Nodes reach each other on the listeners INTERNAL and CONTROLLER. Clients have PLAINTEXT and, where a suite wants it,
SECURED: SASL_SSL with SCRAM-SHA-512, for the user `USER`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from oracle import ApacheKafka, BrokerProcess, free_port
from support.access import PLAIN_MODULE, SCRAM_MODULE, Access, logged_in
from support.certificates import LOOPBACK, Authority
from support.clusters import Cluster, KpyNode, NodeOf, Place
from support.namespaces import Network

NODE, PASSWORD = "node", "node's secret"
USER, USER_PASSWORD = "alice", "wonder"
MODULES = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
"""The login module of each mechanism."""
SECURED: Final = "SECURED"
WITH_USER: Final = ("--add-scram", f"SCRAM-SHA-512=[name={USER},password={USER_PASSWORD}]")
"""Words for ``format``: the user of SECURED is there from the beginning."""


def jaas_of(mechanism: str, user: str = NODE, password: str = PASSWORD) -> str:
    """The JAAS config of a node that logs in so, and lets all nodes log in so."""
    known = f' user_{user}="{password}"' if mechanism == "PLAIN" else ""
    return f'{MODULES[mechanism]} required username="{user}" password="{password}"{known};'


def between_nodes(
    directory: Path,
    mechanism: str = "PLAIN",
    protocol: str = "SASL_SSL",
    listeners: Sequence[str] = ("INTERNAL", "CONTROLLER"),
    hosts: Sequence[str] = LOOPBACK,
) -> dict[str, str]:
    """The properties by which nodes use this protocol on these listeners. Clients have PLAINTEXT."""
    authority = Authority()
    keys = authority.issue(hosts=hosts).save_pem(directory / "node.pem")
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


def for_clients(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of `between_nodes`, with SECURED for clients too."""
    return {
        **settings,
        "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},{SECURED}:SASL_SSL",
        "listener.name.secured.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }


def with_listeners(node_of: NodeOf, *names: str) -> NodeOf:
    """Nodes with more listeners."""

    def node(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
        added = ",".join(f"{name}://{place.host}:{free_port()}" for name in names)
        more = {name: f"{properties[name]},{added}" for name in ("listeners", "advertised.listeners")}
        made = node_of(place, {**properties, **more}, directory)
        if SECURED in names and isinstance(made, KpyNode | ApacheKafka):
            made.formatting = (*made.formatting, *WITH_USER)
        return made

    return node


def with_internal_listener(node_of: NodeOf) -> NodeOf:
    """Nodes with one more listener, for brokers."""
    return with_listeners(node_of, "INTERNAL")


def addresses(nodes: Sequence[BrokerProcess], listener: str) -> str:
    """The addresses of a listener that nodes advertise."""
    found = []
    for node in nodes:
        advertised: str = node.properties["advertised.listeners"]  # type: ignore[attr-defined]
        found += [each.partition("//")[2] for each in advertised.split(",") if each.startswith(f"{listener}://")]
    return ",".join(found)


def secured_access(nodes: Sequence[BrokerProcess], authority: Path) -> Access:
    """How clients reach SECURED."""
    return logged_in(addresses(nodes, SECURED), USER, USER_PASSWORD, authority=authority)


def secured_cluster(
    node_of: NodeOf,
    directory: Path,
    size: int = 3,
    properties: Mapping[str, str] | None = None,
    *,
    network: Network | None = None,
) -> Cluster:
    """A cluster with TLS and SASL between all nodes, whose clients use SECURED."""
    hosts = LOOPBACK if network is None else [network.address(node_id) for node_id in range(1, size + 1)]
    settings = {**for_clients(between_nodes(directory, hosts=hosts)), **(properties or {})}
    cluster = Cluster(with_listeners(node_of, "INTERNAL", SECURED), directory, size, settings, network=network)
    cluster.access = secured_access(list(cluster.nodes.values()), directory / "authority.pem")
    return cluster
