"""A broker of kpybroker in a cluster of Apache Kafka 3.9 in ZooKeeper mode, whose controller is Apache Kafka.

The tests share one cluster and play in their order: brokers 1 and 3 are Apache Kafka, broker 2 is kpybroker.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions
from kazoo.client import KazooClient

from kpywire import error_codes
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oracle import BrokerProcessError, jars, java
from support.raw_client import RawClient
from support.zookeeper_clients import PATIENCE_S, consume, create, is_in_sync, partitions_of, produce, soon
from support.zookeeper_clusters import KafkaOnZooKeeper, KpyOnZooKeeper, ZooKeeperCluster

pytestmark = [pytest.mark.java, pytest.mark.slow]

KPY = 2
PROGRAM = (sys.executable, "-m", "kpybroker")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    brokers = {1: KafkaOnZooKeeper, KPY: KpyOnZooKeeper, 3: KafkaOnZooKeeper}
    with ZooKeeperCluster(tmp_path_factory.mktemp("zookeeper-mode"), brokers) as running:
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
    return AdminClient({"bootstrap.servers": cluster.brokers[KPY].bootstrap_servers})


def test_the_registration_has_the_fields_of_apache_kafkas(cluster: ZooKeeperCluster, tree: KazooClient) -> None:
    ours, stat = tree.get(f"/brokers/ids/{KPY}")
    theirs, their_stat = tree.get("/brokers/ids/1")
    mine, kafkas = json.loads(ours), json.loads(theirs)
    assert mine.keys() == kafkas.keys()
    assert {key: type(value) for key, value in mine.items()} == {key: type(value) for key, value in kafkas.items()}
    for name in ("version", "jmx_port", "listener_security_protocol_map", "features", "host"):
        if name != "listener_security_protocol_map":
            assert mine[name] == kafkas[name], name
    assert (stat.version, stat.ephemeralOwner != 0) == (their_stat.version, True) == (1, True)
    meta = (cluster.brokers[KPY].data / "meta.properties").read_text()
    assert {"broker.id=2", "version=0"} <= set(meta.splitlines())


def test_a_broker_leads_and_follows_beside_apache_kafka(cluster: ZooKeeperCluster, admin: AdminClient) -> None:
    assert admin.list_topics(timeout=10).controller_id == 1
    create(admin, "shared", 6)
    soon(lambda: is_in_sync(admin, "shared"))
    found = partitions_of(admin, "shared").values()
    assert any(each.leader == KPY for each in found)
    assert any(each.leader != KPY and KPY in each.replicas for each in found)
    produce(cluster.bootstrap_servers, "shared", 3_000)
    assert consume(cluster.bootstrap_servers, "shared", 3_000) == list(range(3_000))
    soon(lambda: is_in_sync(admin, "shared"))


def test_changed_topic_configs_are_followed(cluster: ZooKeeperCluster, admin: AdminClient) -> None:
    create(admin, "configured", 2, retention_ms="7200000")
    resource = ConfigResource(ConfigResource.Type.TOPIC, "configured")

    def retention() -> str:
        described = next(iter(admin.describe_configs([resource]).values())).result(10)
        return str(described["retention.ms"].value)

    assert soon(retention) == "7200000"
    changed = java(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", cluster.brokers[1].bootstrap_servers, "--alter", "--entity-type", "topics"),
        *("--entity-name", "configured", "--add-config", "retention.ms=1234567"),
        release=jars.KAFKA_BEFORE_4,
    )
    assert changed.returncode == 0, changed.stderr
    soon(lambda: retention() == "1234567")


def test_transactions_pass_through_both_programs(cluster: ZooKeeperCluster, admin: AdminClient) -> None:
    create(admin, "transacted", 4)
    soon(lambda: is_in_sync(admin, "transacted"))
    numbers = iter(range(10_000))
    for transaction in range(6):
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"tx-{transaction}"})
        producer.init_transactions(PATIENCE_S)
        for is_kept in (False, True):
            producer.begin_transaction()
            for _ in range(20):
                value = next(numbers) if is_kept else -5
                producer.produce("transacted", str(value).encode())
            if is_kept:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
    assert consume(cluster.bootstrap_servers, "transacted", 120, "of-transactions") == list(range(120))


def test_partitions_are_added_and_topics_are_deleted(
    cluster: ZooKeeperCluster, admin: AdminClient, tree: KazooClient
) -> None:
    create(admin, "grows", 2)
    admin.create_partitions([NewPartitions("grows", 5)])["grows"].result(30)
    soon(lambda: len(partitions_of(admin, "grows")) == 5 and is_in_sync(admin, "grows"))
    held = [each for each in cluster.brokers[KPY].data.iterdir() if each.name.startswith("grows-")]
    assert held
    admin.delete_topics(["grows"])["grows"].result(30)
    soon(lambda: tree.exists("/brokers/topics/grows") is None)
    assert "grows" not in admin.list_topics(timeout=10).topics
    soon(lambda: not [each for each in cluster.brokers[KPY].data.iterdir() if each.name.startswith("grows-")])
    create(admin, "grows", 3)
    soon(lambda: is_in_sync(admin, "grows"))
    produce(cluster.bootstrap_servers, "grows", 100)


def test_a_replica_moves_away_and_back(cluster: ZooKeeperCluster, admin: AdminClient, tree: KazooClient) -> None:
    create(admin, "moves", 1, 1)
    produce(cluster.bootstrap_servers, "moves", 200)
    for target in ([KPY], [1], [KPY]):
        reassign(cluster, "moves", target)
        soon(lambda target=target: [each.replicas for each in partitions_of(admin, "moves").values()] == [target])
        state = "/brokers/topics/moves/partitions/0/state"
        soon(lambda target=target, state=state: json.loads(tree.get(state)[0])["isr"] == target)
        holds = KPY in target
        soon(lambda holds=holds: (cluster.brokers[KPY].data / "moves-0").exists() is holds)
    assert consume(cluster.bootstrap_servers, "moves", 200, "of-moves") == list(range(200))


def reassign(cluster: ZooKeeperCluster, topic: str, replicas: list[int]) -> None:
    plan = cluster.brokers[1].directory / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}))
    moved = java(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        *("--bootstrap-server", cluster.brokers[1].bootstrap_servers),
        *("--reassignment-json-file", str(plan), "--execute"),
        release=jars.KAFKA_BEFORE_4,
    )
    assert moved.returncode == 0, moved.stdout + moved.stderr


def test_a_session_that_expires_while_the_process_lives_is_replaced(
    cluster: ZooKeeperCluster, admin: AdminClient, tree: KazooClient
) -> None:
    broker = cluster.brokers[KPY]
    _, before = tree.get(f"/brokers/ids/{KPY}")
    broker.pause()
    soon(lambda: tree.exists(f"/brokers/ids/{KPY}") is None)
    others = ",".join(cluster.brokers[each].bootstrap_servers for each in (1, 3))
    produce(others, "shared", 300, 3_000)
    broker.resume()
    after = soon(lambda: tree.exists(f"/brokers/ids/{KPY}"))
    assert after.czxid > before.czxid
    soon(lambda: is_in_sync(admin, "shared"))
    produce(cluster.bootstrap_servers, "shared", 300, 3_300)
    assert consume(cluster.bootstrap_servers, "shared", 3_600, "after-expiry") == list(range(3_600))


def test_records_are_served_while_zookeeper_is_away(cluster: ZooKeeperCluster, admin: AdminClient) -> None:
    cluster.zookeeper.kill()
    produce(cluster.bootstrap_servers, "shared", 100, 3_600)
    assert admin.list_topics(timeout=10).controller_id == 1
    cluster.zookeeper.start()
    create(admin, "after-the-outage", 2)
    soon(lambda: is_in_sync(admin, "after-the-outage") and is_in_sync(admin, "shared"))


def reigns_in(tree: KazooClient, *brokers: int) -> bool:
    """Whether one of these brokers is the controller."""
    content = (tree.exists("/controller") and tree.get("/controller")[0]) or b"{}"
    return json.loads(content).get("brokerid") in brokers


def test_a_broker_follows_a_newly_elected_controller(
    cluster: ZooKeeperCluster, admin: AdminClient, tree: KazooClient
) -> None:
    cluster.brokers[1].kill()
    soon(lambda: reigns_in(tree, 2, 3))
    soon(lambda: admin.list_topics(timeout=10).controller_id in (2, 3))
    soon(lambda: all(each.leader in (2, 3) for each in partitions_of(admin, "shared").values() if KPY in each.replicas))
    create(admin, "second-reign", 2)
    soon(lambda: is_in_sync(admin, "second-reign"))
    cluster.brokers[1].start()
    soon(lambda: is_in_sync(admin, "shared"))
    produce(cluster.bootstrap_servers, "shared", 100, 3_700)


def test_a_controlled_shutdown_moves_leaderships_and_its_directory_is_used_again(
    cluster: ZooKeeperCluster, tree: KazooClient
) -> None:
    elsewhere = AdminClient({"bootstrap.servers": cluster.brokers[1].bootstrap_servers})
    cluster.brokers[KPY].stop()
    assert tree.exists(f"/brokers/ids/{KPY}") is None
    soon(lambda: all(each.leader in (1, 3) for each in partitions_of(elsewhere, "shared").values()))
    output = cluster.brokers[KPY].output.read_text()
    assert "Controlled shutdown request returned successfully" in output
    produce(cluster.bootstrap_servers, "shared", 200, 3_800)
    cluster.brokers[KPY].start()
    soon(lambda: is_in_sync(elsewhere, "shared"))
    assert consume(cluster.bootstrap_servers, "shared", 4_000, "at-the-end") == list(range(4_000))


def test_apache_kafka_and_kpybroker_have_equal_logs(cluster: ZooKeeperCluster, admin: AdminClient) -> None:
    soon(lambda: is_in_sync(admin, "shared"))
    offsets = {}
    for index in partitions_of(admin, "shared"):
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "ends"})
        offsets[index] = consumer.get_watermark_offsets(TopicPartition("shared", index), timeout=10)[1]
        consumer.close()
    assert sum(offsets.values()) == 4_000
    compared = 0
    for index in offsets:
        segments = [
            broker.data / f"shared-{index}" / f"{0:020}.log"
            for broker in cluster.brokers.values()
            if (broker.data / f"shared-{index}").exists()
        ]
        contents = {path.read_bytes().rstrip(b"\0") for path in segments}
        assert len(contents) == 1, f"shared-{index} differs"
        compared += len(segments)
    assert compared == 12


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"broker.id": "1"}, "another broker has the id 1"),
        ({"zookeeper.connect": "127.0.0.1:1/kafka"}, "ZooKeeper at 127.0.0.1:1 cannot be reached"),
        ({"zookeeper.connect": "nowhere/x//y"}, "no path of ZooKeeper"),
        ({"inter.broker.protocol.version": "2.8"}, "speak 3.9 here"),
    ],
)
def test_a_start_that_cannot_succeed_is_refused_in_one_line(
    cluster: ZooKeeperCluster, tmp_path: Any, changed: dict[str, str], message: str
) -> None:
    properties = {"zookeeper.session.timeout.ms": "1000", **changed}
    properties.setdefault("zookeeper.connection.timeout.ms", "1000")
    broker = KpyOnZooKeeper(9, cluster.connect, properties, directory=tmp_path)
    with pytest.raises(BrokerProcessError) as refused:
        broker.__enter__()
    assert message in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_directories_of_another_cluster_are_refused(cluster: ZooKeeperCluster, tmp_path: Any) -> None:
    broker = KpyOnZooKeeper(9, cluster.connect, directory=tmp_path)
    broker.data.mkdir(parents=True)
    (broker.data / "meta.properties").write_text("version=0\nbroker.id=9\ncluster.id=another\n")
    with pytest.raises(BrokerProcessError, match=r"Invalid cluster.id in: .*Expected .*, but read another"):
        broker.__enter__()


def test_a_broker_without_an_id_gets_one_and_keeps_it(cluster: ZooKeeperCluster, tmp_path: Any) -> None:
    broker = KpyOnZooKeeper(None, cluster.connect, directory=tmp_path)
    with broker:
        meta = (broker.data / "meta.properties").read_text()
        assert "broker.id=1001" in meta
        broker.restart()
        assert (broker.data / "meta.properties").read_text() == meta


def test_a_request_larger_than_zookeeper_takes_is_refused_and_the_session_goes_on(
    cluster: ZooKeeperCluster, tree: KazooClient, tmp_path: Any
) -> None:
    throttled = ",".join(f"{number}:{KPY}" for number in range(4_000))
    value = AlterableConfig(name="leader.replication.throttled.replicas", config_operation=0, value=throttled)
    resource = AlterConfigsResource(resource_type=2, resource_name="configured", configs=[value])
    before = tree.get("/config/topics/configured")[0]
    launcher = ("env", "KAFKA_OPTS=-Djute.maxbuffer=20000")
    with KpyOnZooKeeper(9, cluster.connect, directory=tmp_path, launcher=launcher) as broker:
        session = tree.get("/brokers/ids/9")[1].ephemeralOwner
        with RawClient(broker.port) as raw:
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            (answer,) = raw.call(request, 1).responses
            assert answer.error_code == error_codes.UNKNOWN_SERVER_ERROR
            why = r"was not sent to ZooKeeper: it has \d{5} bytes, and servers take 20000 at most \(jute.maxbuffer\)"
            assert re.search(why, answer.error_message)
            assert tree.get("/config/topics/configured")[0] == before
            value.value = f"0:{KPY}"
            assert raw.call(request, 1).responses[0].error_code == error_codes.NONE
        assert tree.get("/brokers/ids/9")[1].ephemeralOwner == session
        assert "is lost" not in broker.output.read_text()


def test_a_jute_maxbuffer_that_is_no_number_refuses_the_start(cluster: ZooKeeperCluster, tmp_path: Any) -> None:
    option = "-Djute.maxbuffer=much"
    broker = KpyOnZooKeeper(9, cluster.connect, directory=tmp_path, launcher=("env", f"KAFKA_OPTS={option}"))
    with pytest.raises(BrokerProcessError, match=f"{option} in KAFKA_OPTS is not a number of bytes"):
        broker.__enter__()


def test_the_tree_is_shown_and_fits_what_the_brokers_say(cluster: ZooKeeperCluster, admin: AdminClient) -> None:
    soon(lambda: all(is_in_sync(admin, name) for name in admin.list_topics(timeout=10).topics))
    words = ["zookeeper", cluster.connect, "--json"]
    found = json.loads(soon(lambda: fitting(words)))
    registration = found["znodes"][f"/brokers/ids/{KPY}"]
    assert registration["writer"] == "that broker"
    assert registration["session"]
    assert fitting(["zookeeper", f"{cluster.zookeeper.bootstrap_servers}/nowhere"]) is None


def fitting(words: list[str]) -> str | None:
    """The output of the command, if everything fits together."""
    ended = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (0, 1, 4), ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout if ended.returncode == 0 else None
