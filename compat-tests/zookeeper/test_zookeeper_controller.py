"""A broker of kpybroker as the controller of a cluster in ZooKeeper, with a broker of Apache Kafka 3.9 in it.

The tests share one cluster and play in their order: brokers 1 and 3 are kpybroker, broker 2 is Apache Kafka. Broker 1
is the controller until it is killed, also where the machine stood still and its session is over.
"""

import json
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from support.zookeeper_clients import consume, create, is_in_sync, partitions_of, produce, soon
from support.zookeeper_clusters import KafkaOnZooKeeper, KpyOnZooKeeper, ZooKeeperCluster

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    brokers = {1: KpyOnZooKeeper, 2: KafkaOnZooKeeper, 3: KpyOnZooKeeper}
    with ZooKeeperCluster(tmp_path_factory.mktemp("zookeeper-controller"), brokers) as running:
        yield running


@pytest.fixture(scope="module")
def tree(cluster: ZooKeeperCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def admin(cluster: ZooKeeperCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def leaders(admin: AdminClient, topic: str) -> list[int]:
    return [each.leader for each in partitions_of(admin, topic).values()]


def becomes_controller(tree: KazooClient, broker_id: int) -> bool:
    """Whether a broker is the controller. If another broker is, that one is deposed."""
    try:
        is_so = bool(json.loads(tree.get("/controller")[0])["brokerid"] == broker_id)
        if not is_so:
            tree.delete("/controller")
    except NoNodeError:
        return False
    return is_so


def created(admin: AdminClient, topic: str) -> bool:
    """A client may ask the former controller once more: it is refused, and asks again. The topic may be there then."""
    if not partitions_of(admin, topic):
        create(admin, topic, 1, replicas=3)
    return True


def test_topics_are_created_on_brokers_of_both_programs(
    cluster: ZooKeeperCluster, admin: AdminClient, tree: KazooClient
) -> None:
    soon(lambda: becomes_controller(tree, 1))
    soon(lambda: admin.list_topics(timeout=10).controller_id == 1)
    create(admin, "shared", 6, replicas=3)
    soon(lambda: is_in_sync(admin, "shared") and set(leaders(admin, "shared")) == {1, 2, 3})
    produce(cluster.bootstrap_servers, "shared", 2_000, acks="all")
    assert consume(cluster.bootstrap_servers, "shared", 2_000) == list(range(2_000))


def test_a_topic_grows(admin: AdminClient) -> None:
    admin.create_partitions([NewPartitions("shared", 8)])["shared"].result(30)
    soon(lambda: len(partitions_of(admin, "shared")) == 8 and is_in_sync(admin, "shared"))


def test_a_broker_that_stops_hands_over_and_comes_back(cluster: ZooKeeperCluster, admin: AdminClient) -> None:
    cluster.brokers[2].stop()
    soon(lambda: 2 not in leaders(admin, "shared") and -1 not in leaders(admin, "shared"))
    produce(cluster.bootstrap_servers, "shared", 500, first=2_000, acks="all")
    cluster.brokers[2].start()
    soon(lambda: is_in_sync(admin, "shared"))


def test_preferred_leaders_are_elected_on_request(admin: AdminClient) -> None:
    wanted = [TopicPartition("shared", each) for each in range(8)]
    results = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(30)
    assert {each.name() for each in results.values() if each} <= {"ELECTION_NOT_NEEDED", "_NO_ERROR", "NO_ERROR"}
    soon(lambda: 2 in leaders(admin, "shared"))


def test_the_next_controller_leads_what_the_killed_one_led(
    cluster: ZooKeeperCluster, admin: AdminClient, tree: KazooClient
) -> None:
    soon(lambda: becomes_controller(tree, 1))
    epoch = int(tree.get("/controller_epoch")[0])
    cluster.brokers[1].kill()
    soon(lambda: admin.list_topics(timeout=10).controller_id in (2, 3))
    soon(lambda: not {1, -1} & set(leaders(admin, "shared")))
    assert int(tree.get("/controller_epoch")[0]) == epoch + 1
    produce(cluster.bootstrap_servers, "shared", 500, first=2_500, acks="all")
    cluster.brokers[1].start()
    soon(lambda: is_in_sync(admin, "shared"))
    assert consume(cluster.bootstrap_servers, "shared", 3_000, group="all") == list(range(3_000))


def test_topics_are_created_in_one_reign_after_the_other(admin: AdminClient, tree: KazooClient) -> None:
    for number in range(6):
        tree.delete("/controller")
        soon(lambda: tree.exists("/controller"))
        soon(partial(created, admin, f"reign-{number}"))
        soon(partial(is_in_sync, admin, f"reign-{number}"))
    assert is_in_sync(admin, "shared")


def test_a_deleted_topic_leaves_nothing_in_the_tree(admin: AdminClient, tree: KazooClient) -> None:
    soon(lambda: is_in_sync(admin, "shared"))
    admin.delete_topics(["shared"])["shared"].result(30)
    soon(lambda: not tree.exists("/admin/delete_topics/shared"))
    assert not tree.exists("/brokers/topics/shared")
    assert not tree.exists("/config/topics/shared")
