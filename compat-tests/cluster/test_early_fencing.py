"""A broker that is paused or cut off is replaced long before its session ends."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from failover.faults import wait_for_in_sync
from kpywire.messages.describe_cluster import DescribeClusterRequest
from oracle import BrokerProcess
from support.admin_requests import quorum_of
from support.clusters import Cluster, NodeOf, Place, kafka_node, kpybroker_node
from support.namespaces import Network, why_no_namespaces
from support.raw_client import connect
from support.waiting import eventually

TOPIC = "orders"
LONG = {"broker.session.timeout.ms": "60000", "kpybroker.http.listener": ""}
"""A session that lasts longer than the test: what happens meanwhile is not its end."""
PATIENCE_S = 45.0


def created(cluster: Cluster, leader: int, name: str = TOPIC) -> None:
    """A topic that a node leads, with three replicas in sync."""
    admin = AdminClient(cluster.access.librdkafka)
    replicas = [leader, *sorted(cluster.nodes.keys() - {leader})]
    topic = NewTopic(name, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[name].result(60)
    wait_for_in_sync(cluster, name, 3)


def write_without(cluster: Cluster, away: int) -> float:
    """Have a new client write a record to all replicas in sync, while a node is away. Returns how long that took."""
    others = [node.bootstrap_servers for node_id, node in cluster.nodes.items() if node_id != away]
    began_s = time.monotonic()
    failures: list[object] = []
    producer = Producer(
        {
            **cluster.access.librdkafka,
            "bootstrap.servers": ",".join(others),
            "acks": "all",
            "message.timeout.ms": int(PATIENCE_S * 1000),
            "request.timeout.ms": 500,
            "socket.timeout.ms": 500,
            "topic.metadata.refresh.interval.ms": 200,
            "log_level": 0,
        }
    )
    producer.produce(TOPIC, b"one more", partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failures == [None]
    return time.monotonic() - began_s


def controller_of(cluster: Cluster) -> int:
    """The node whose controller is active."""
    node = next(iter(cluster.nodes.values()))
    with connect(node.bootstrap_servers) as client:
        (partition,) = client.call(quorum_of(("__cluster_metadata", [0])), 2).topics[0].partitions
    return int(partition.leader_id)


def reasons(cluster: Cluster) -> list[str]:
    """The lines that say why brokers were fenced."""
    lines = [line for node in cluster.nodes.values() for line in node.output.read_text().splitlines()]
    return [line for line in lines if " is fenced" in line]


@pytest.mark.slow
@pytest.mark.parametrize("is_controller", [False, True], ids=["a-broker", "the-active-controller"])
def test_writes_go_on_before_the_session_of_a_paused_leader_ends(tmp_path: Path, *, is_controller: bool) -> None:
    with Cluster(kpybroker_node, tmp_path, properties=LONG) as cluster:
        controller = controller_of(cluster)
        leader = controller if is_controller else next(each for each in cluster.nodes if each != controller)
        created(cluster, leader)
        cluster.nodes[leader].pause()
        passed_s = write_without(cluster, leader)
        print(f"leader {leader} paused, controller {controller}: written again after {passed_s:.2f} s")
        cluster.nodes[leader].resume()
        wait_for_in_sync(cluster, TOPIC, 3)
        print(*reasons(cluster), sep="\n")
        assert any(f"Broker {leader} is fenced before its session ends" in line for line in reasons(cluster))


@pytest.mark.slow
def test_writes_go_on_before_the_session_of_a_leader_that_is_cut_off_ends(tmp_path: Path) -> None:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with Network() as network, Cluster(kpybroker_node, tmp_path, properties=LONG, network=network) as cluster:
        controller = controller_of(cluster)
        leader = next(each for each in cluster.nodes if each != controller)
        created(cluster, leader)
        with network.cut(leader):
            passed_s = write_without(cluster, leader)
        print(f"leader {leader} cut off, controller {controller}: written again after {passed_s:.2f} s")
        wait_for_in_sync(cluster, TOPIC, 3)
        print(*reasons(cluster), sep="\n")
        assert any(f"Broker {leader} is fenced before its session ends" in line for line in reasons(cluster))


def mixed(controller_id: int) -> NodeOf:
    """Node 1 is Apache Kafka's, the others are kpybroker's; one of them has the only controller."""

    def node_of(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
        voters = properties["controller.quorum.voters"].split(",")
        own = {**properties, "controller.quorum.voters": voters[controller_id - 1]}
        if place.node_id != controller_id:
            own |= {"process.roles": "broker", "listeners": properties["advertised.listeners"]}
        return (kafka_node if place.node_id == 1 else kpybroker_node)(place, own, directory)

    return node_of


@pytest.mark.slow
@pytest.mark.java
def test_a_controller_of_apache_kafka_reads_over_reports_of_silence(tmp_path: Path) -> None:
    with Cluster(mixed(1), tmp_path, properties={"broker.session.timeout.ms": "6000"}) as cluster:
        created(cluster, 2)
        cluster.nodes[2].pause()
        write_without(cluster, 2)
        cluster.nodes[2].resume()
        wait_for_in_sync(cluster, TOPIC, 3)
        assert "answers the heartbeats" not in cluster.nodes[3].output.read_text()
        assert reasons(cluster) == []


@pytest.mark.slow
@pytest.mark.java
def test_a_broker_of_apache_kafka_is_not_fenced_before_its_session_ends(tmp_path: Path) -> None:
    with Cluster(mixed(3), tmp_path, properties=LONG) as cluster:
        created(cluster, 2)
        created(cluster, 1, "payments")
        cluster.nodes[1].pause()
        cluster.nodes[2].pause()
        eventually(lambda: reasons(cluster), "a broker is fenced early", PATIENCE_S)
        assert [line.split(" is fenced")[0][-8:] for line in reasons(cluster)] == ["Broker 2"]

        def are_left() -> bool:
            with connect(cluster.nodes[3].bootstrap_servers) as client:
                answer = client.call(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
            return sorted(each.broker_id for each in answer.brokers) == [1, 3]

        eventually(are_left, "the broker of Apache Kafka is left", PATIENCE_S)
        cluster.nodes[1].resume()
        cluster.nodes[2].resume()
