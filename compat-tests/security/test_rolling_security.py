"""A cluster of three moves from PLAINTEXT to SASL_SSL while clients write, read and commit transactions: the listeners
for clients, for brokers and for controllers, in the steps of docs/security.md."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from failover.faults import wait_until_replicated
from failover.run import read_all
from failover.verdict import judge
from oracle import BrokerProcess, free_port
from oracle.process import HOST
from support.access import PLAIN_MODULE, SCRAM_MODULE, Access, logged_in
from support.certificates import Authority
from support.clusters import PROGRAMS, Cluster
from support.secured import NODE, PASSWORD, USER, USER_PASSWORD
from support.upgrade_load import Load, committed_numbers, create_topics
from support.waiting import eventually

pytestmark = pytest.mark.timeout(600)
NODES = 3
PATIENCE_S = 60.0
STOP_S = 180.0
"""For a node to hand over what it leads, on a machine that does something else too."""


class Change:
    """The configurations of the nodes, step by step."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.authority = Authority()
        self.trusted = self.authority.save(directory / "authority.pem")
        self.keys = self.authority.issue().save_pem(directory / "keys.pem")
        self.ports = {node_id: (free_port(), free_port()) for node_id in cluster.nodes}
        """The ports of each node's listeners with TLS: for clients and brokers, and for controllers."""

    @property
    def access(self) -> Access:
        """How clients reach the new listeners."""
        servers = ",".join(f"{HOST}:{port}" for port, _ in self.ports.values())
        return logged_in(servers, USER, USER_PASSWORD, authority=self.trusted)

    def first(self, node_id: int) -> dict[str, str]:
        """Every node gets the new listeners, beside those that it has, and the credentials for them."""
        place = self.cluster.places[node_id]
        secured, controller = self.ports[node_id]
        nodes = f'username="{NODE}" password="{PASSWORD}" user_{NODE}="{PASSWORD}"'
        return {
            "listeners": f"PLAINTEXT://{HOST}:{place.port},SASL_SSL://{HOST}:{secured},"
            f"CONTROLLER://{HOST}:{place.controller_port},SAFE_CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{place.port},SASL_SSL://{HOST}:{secured}",
            "controller.listener.names": "CONTROLLER,SAFE_CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT,"
            "SAFE_CONTROLLER:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {nodes};",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.safe_controller.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {nodes};",
            "listener.name.safe_controller.sasl.enabled.mechanisms": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keys),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }

    def second(self, _node_id: int) -> dict[str, str]:
        """Nodes use the new listeners among themselves, and still have the former ones for nodes that do not yet."""
        voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, (_, port) in self.ports.items())
        return {
            "inter.broker.listener.name": "SASL_SSL",
            "controller.listener.names": "SAFE_CONTROLLER,CONTROLLER",
            "controller.quorum.voters": voters,
        }

    def third(self, node_id: int) -> dict[str, str]:
        """The former listeners are gone."""
        secured, controller = self.ports[node_id]
        return {
            "listeners": f"SASL_SSL://{HOST}:{secured},SAFE_CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"SASL_SSL://{HOST}:{secured}",
            "controller.listener.names": "SAFE_CONTROLLER",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SAFE_CONTROLLER:SASL_SSL",
        }

    def roll(self, settings: Mapping[int, Mapping[str, str]]) -> None:
        """Restart each node with more settings, one after the other."""
        for node_id, more in settings.items():
            restart(self.cluster, self.cluster.nodes[node_id], more)


def restart(cluster: Cluster, node: BrokerProcess, more: Mapping[str, str]) -> None:
    """Stop a node, and start it with further properties. All replicas of all topics are in sync afterwards."""
    node.stop()
    node.properties.update(more)  # type: ignore[attr-defined]
    node.prepare()
    node.launch()
    wait_until_replicated(cluster, NODES)
    assert node.process is not None
    assert node.process.poll() is None, node.tail()


def add_user(access: Access) -> None:
    """The user of the clients, in the metadata."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, USER_PASSWORD.encode())
    admin = AdminClient(access.librdkafka)
    admin.alter_user_scram_credentials([change])[USER].result(PATIENCE_S)


def test_a_cluster_moves_from_plaintext_to_sasl_ssl_and_clients_see_retries_at_most(
    target: str, tmp_path: Path
) -> None:
    if target not in PROGRAMS:
        pytest.skip("configures the nodes of a cluster, and the target is one of somebody else")
    with Cluster(PROGRAMS[target], tmp_path, NODES) as cluster:
        change = Change(cluster, tmp_path)
        for node in cluster.nodes.values():
            node.stop_timeout_s = max(node.stop_timeout_s, STOP_S)
        create_topics(cluster)
        # librdkafka's EndTxn, repeated at the next coordinator, ended in INVALID_TXN_STATE on Apache Kafka 4.3.1.
        ours = target == "kpybroker"
        before = Load(cluster.access, "before", in_transactions=ours)
        after = Load(change.access, "after", in_transactions=ours)
        begun = [before]
        try:
            before.start()
            eventually(lambda: before.is_under_way, "all clients to have begun", PATIENCE_S)
            add_user(cluster.access)
            change.roll({node_id: change.first(node_id) for node_id in cluster.nodes})
            before.stop()
            cluster.access = change.access
            after.start()
            begun.append(after)
            eventually(lambda: after.is_under_way, "all clients to use the new listeners", PATIENCE_S)
            change.roll({node_id: change.second(node_id) for node_id in cluster.nodes})
            change.roll({node_id: change.third(node_id) for node_id in cluster.nodes})
        finally:
            for load in begun:
                load.stop()
        assert before.failures + after.failures == []
        acknowledged = {**before.writer.acknowledged, **after.writer.acknowledged}
        verdict = judge(acknowledged, read_all(cluster.access))
        assert verdict.is_clean, verdict
        assert before.reader.gaps() + after.reader.gaps(before.reader) == []
        for partition in range(2):
            committed = before.transactions.committed + after.transactions.committed
            assert committed_numbers(cluster.access, partition) == committed
        assert not any(node.answers for node in cluster.nodes.values())
