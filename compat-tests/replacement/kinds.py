"""The kinds of clusters that are replaced, and how the other program takes over a node: by its directory.

The heir of a node has its configuration, its addresses and its log directories; nothing is formatted or copied.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from oracle import BrokerProcess
from oracle.zookeeper import KafkaOnZooKeeper
from support.admitted import AUTHORIZED, admit
from support.clusters import KafkaNode, KpyNode, Nodes, Place, kafka_node, kpybroker_node
from support.raw_client import connect
from support.secured import SECURED, between_nodes, for_clients, secured_access, secured_cluster, with_listeners
from support.separate_clusters import SeparateCluster
from support.zookeeper_clusters import KpyOnZooKeeper, zookeeper_cluster

PATIENCE_S: Final = 600.0
"""For a JVM to start on a machine that does much else."""
OF_KPYBROKER: Final = "kpybroker."
"""The beginning of keys that Apache Kafka does not know."""


def combined(directory: Path) -> Nodes:
    """Three nodes of Apache Kafka 4.3, each broker and controller, with TLS, SASL and ACLs."""
    return secured_cluster(kafka_node, directory, properties=AUTHORIZED)


def separate(directory: Path) -> Nodes:
    """Three brokers and three controllers of Apache Kafka 4.3, with TLS, SASL and ACLs."""
    settings = {**for_clients(between_nodes(directory)), **AUTHORIZED}
    brokers = with_listeners(kafka_node, "INTERNAL", SECURED)
    cluster = SeparateCluster(brokers, kafka_node, directory, settings)
    cluster.access = secured_access([*cluster.nodes.values()], directory / "authority.pem")
    return cluster


def on_zookeeper(directory: Path) -> Nodes:
    """Three brokers of Apache Kafka 3.9, and three servers of ZooKeeper, which stay as they are."""
    return zookeeper_cluster("apache-kafka", directory)


KINDS: Final[Mapping[str, Callable[[Path], Nodes]]] = {
    "kraft": combined,
    "kraft-separate": separate,
    "zookeeper": on_zookeeper,
}


def is_secured(cluster: Nodes) -> bool:
    """Whether its clients log in, and ACLs say what they may do."""
    return bool(cluster.access.properties)


def let_in(cluster: Nodes) -> None:
    """Let the clients of a secured cluster in."""
    if is_secured(cluster):
        with connect(cluster.bootstrap_servers.partition(",")[0]) as administrator:
            admit(administrator)


def replace(cluster: Nodes, before: BrokerProcess) -> BrokerProcess:
    """The heir of a node that has stopped, which is not started yet."""
    heir = heir_of(before)
    heir.is_broker = before.is_broker
    heir.start_timeout_s = heir.stop_timeout_s = PATIENCE_S
    heir.prepare()
    groups = [cluster.nodes]
    if isinstance(cluster, SeparateCluster):
        groups.append(cluster.controllers)
    for nodes in groups:
        for node_id, node in nodes.items():
            if node is before:
                nodes[node_id] = heir
    return heir


def heir_of(before: BrokerProcess) -> BrokerProcess:
    """A node of the other program on the same directories and addresses."""
    assert isinstance(before, KafkaNode | KpyNode | KafkaOnZooKeeper | KpyOnZooKeeper)
    properties = {key: value for key, value in before.properties.items() if not key.startswith(OF_KPYBROKER)}
    if isinstance(before, KafkaOnZooKeeper | KpyOnZooKeeper):
        other: type[KafkaOnZooKeeper | KpyOnZooKeeper]
        other = KpyOnZooKeeper if isinstance(before, KafkaOnZooKeeper) else KafkaOnZooKeeper
        assert before.broker_id is not None
        connect_to = properties["zookeeper.connect"]
        return other(before.broker_id, connect_to, properties, directory=before.directory, port=before.port)
    heir_of_kraft = kpybroker_node if isinstance(before, KafkaNode) else kafka_node
    return heir_of_kraft(Place(int(properties["node.id"]), before.port, before.port), properties, before.directory)
