"""Apache Kafka and kpybroker in one cluster, with TLS and SASL between them: each as the controller of the other's
broker, and each as the leader and the follower of the other."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conftest import started
from kpybroker.security.oauth.assertions import KEY_FILE
from kpybroker.testing.oidc import OidcProvider
from oracle import ApacheKafka, BrokerProcess, free_port
from support import oauth_nodes
from support.clusters import SHARED, NodeOf, Place, kafka_node, kpybroker_node
from support.oauth_wire import ALLOWED, ALLOWED_FILES
from support.secured import between_nodes, with_internal_listener
from support.waiting import eventually

PATIENCE_S = 60
RECORDS = 200
SESSION_MS = 1_500
"""So short that both programs log in again while they replicate."""


@contextmanager
def pair(controller: NodeOf, broker: NodeOf, directory: Path, **settings: str) -> Iterator[list[BrokerProcess]]:
    """Node 1 is controller and broker, node 2 is a broker."""
    controller_port = free_port()
    shared = {
        **SHARED,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "offsets.topic.replication.factor": "2",
        **settings,
    }
    nodes: list[BrokerProcess] = []
    try:
        for node_id, node_of in enumerate((controller, broker), 1):
            place = Place(node_id, free_port(), controller_port)
            client = f"PLAINTEXT://127.0.0.1:{place.port}"
            own = {"node.id": str(node_id), "listeners": client, "advertised.listeners": client}
            if node_id == 1:
                own["listeners"] += f",CONTROLLER://127.0.0.1:{controller_port}"
            else:
                own["process.roles"] = "broker"
            here = directory / f"node-{node_id}"
            here.mkdir()
            node = with_internal_listener(node_of)(place, {**shared, **own}, here)
            started.append(node)
            nodes.append(node)
            node.prepare()
            node.launch()
        for node in nodes:
            node.wait_until_it_answers()
        yield nodes
    finally:
        for node in nodes:
            if node.process is not None:
                node.process.kill()
                node.process.wait()
                node.process = None


def admin_of(nodes: list[BrokerProcess]) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers(nodes), "log_level": 0})


def servers(nodes: list[BrokerProcess]) -> str:
    return ",".join(node.bootstrap_servers for node in nodes)


def wait_for_replicas(admin: AdminClient, topic: str) -> None:
    """Wait until all replicas of all partitions are in sync."""

    def all_follow() -> bool:
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return bool(partitions) and all(len(each.isrs) == len(each.replicas) == 2 for each in partitions)

    eventually(all_follow, f"replicas of {topic} in sync")


def write(nodes: list[BrokerProcess], topic: str, turn: int) -> None:
    """Write numbers to both partitions; all replicas acknowledge them."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": servers(nodes), "acks": "all", "log_level": 0})
    for number in range(turn * RECORDS, (turn + 1) * RECORDS):
        for partition in range(2):
            producer.produce(
                topic, b"%d" % number, partition=partition,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )  # fmt: skip
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def read(nodes: list[BrokerProcess], topic: str, partition: int, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers(nodes), "group.id": "reader", "log_level": 0,
                         "enable.auto.commit": False})  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        found: list[int] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), PATIENCE_S)
            assert messages
            found += [int(message.value() or b"") for message in messages if message.error() is None]
        return found
    finally:
        consumer.close()


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("controller", [kafka_node, kpybroker_node])
def test_both_programs_replicate_under_the_controller_of_each(controller: NodeOf, tmp_path: Path, target: str) -> None:
    if target != "kpybroker":
        pytest.skip("takes both programs")
    secured = {**between_nodes(tmp_path), "connections.max.reauth.ms": str(SESSION_MS)}
    assert_both_replicate(controller, tmp_path, secured)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(
    ("controller", "has_secret"), [(kafka_node, True), (kpybroker_node, True), (kafka_node, False)]
)
def test_both_programs_log_in_to_each_other_with_tokens_for_secrets_and_for_assertions(
    controller: NodeOf, has_secret: bool, tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target != "kpybroker":
        pytest.skip("takes both programs")
    with OidcProvider() as provider:
        secured = {**oauth_nodes.between_nodes(provider), "connections.max.reauth.ms": str(SESSION_MS)}
        if not has_secret:
            secured |= oauth_nodes.by_assertions(provider, tmp_path)
        urls, files = f"{provider.jwks_url},{provider.token_url}", secured.get(KEY_FILE, "")
        monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-D{ALLOWED}={urls} -D{ALLOWED_FILES}={files}")
        assert_both_replicate(controller, tmp_path, secured)
        assert any("assertion" in form for form in provider.forms) is not has_secret


def assert_both_replicate(controller: NodeOf, tmp_path: Path, secured: dict[str, str]) -> None:
    """Two nodes, one of either program, replicate while their sessions end and begin again."""
    broker = kpybroker_node if controller is kafka_node else kafka_node
    with pair(controller, broker, tmp_path, **secured) as nodes:
        admin = admin_of(nodes)
        topic = NewTopic("t", 2, replica_assignment=[[1, 2], [2, 1]], config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["t"].result(PATIENCE_S)
        until_s = time.monotonic() + 2 * SESSION_MS / 1000
        turns = 0
        while turns < 2 or time.monotonic() < until_s:  # the sessions of the first connections end meanwhile
            wait_for_replicas(admin, "t")
            write(nodes, "t", turns)
            turns += 1
        for partition in range(2):
            assert read(nodes, "t", partition, turns * RECORDS) == list(range(turns * RECORDS))
        ours = next(node for node in nodes if not isinstance(node, ApacheKafka))
        assert "fail: " not in ours.output.read_text(errors="replace")
