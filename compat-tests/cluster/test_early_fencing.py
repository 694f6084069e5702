"""A broker that is paused or cut off is replaced long before its session ends."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from failover.faults import wait_for_in_sync
from support.admin_requests import quorum_of
from support.clusters import Cluster, kpybroker_node
from support.raw_client import RawClient

TOPIC = "orders"
LONG = {"broker.session.timeout.ms": "60000", "kpybroker.http.listener": ""}
"""A session that lasts longer than the test: what happens meanwhile is not its end."""
PATIENCE_S = 45.0


def created(cluster: Cluster, leader: int) -> None:
    """A topic that a node leads, with three replicas in sync."""
    admin = AdminClient(cluster.access.librdkafka)
    replicas = [leader, *sorted(cluster.nodes.keys() - {leader})]
    topic = NewTopic(TOPIC, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[TOPIC].result(60)
    wait_for_in_sync(cluster, TOPIC, 3)


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
    with RawClient(node.port) as client:
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
