"""A suite written for testcontainers' KafkaContainer moves by changing one import."""

import inspect
from typing import Any

import pytest
from kafka import KafkaProducer
from testcontainers.community.kafka import KafkaContainer as TheirContainer

from kpybroker.testing import KafkaContainer
from kpybroker.testing.container import NeedsContainer

NOT_WITHOUT_A_CONTAINER = {
    *("configure", "create_file", "tc_start"),
    *("copy_from_container", "copy_into_container", "with_copy_into_container", "with_tmpfs_mount", "with_env_file"),
    *("get_container_id", "get_container_info", "get_docker_client", "reload", "status", "wait"),
}
"""The methods of testcontainers about the inside of a container, or its state."""


def public_methods(cls: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(cls, callable) if not name.startswith("_")}


def test_a_typical_suite_runs() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.1").with_kraft().with_env("KAFKA_NUM_PARTITIONS", 3) as kafka:
        server = kafka.get_bootstrap_server()
        assert server == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(kafka.port)}"
        producer = KafkaProducer(bootstrap_servers=server)
        producer.send("t", b"v").get(30)
        assert len(producer.partitions_for("t")) == 3
        producer.close()
        assert b"started" in kafka.get_logs()[0]
        assert kafka.broker is not None
        kafka.broker.assert_records("t", ["v"])


def test_start_and_stop_by_hand_as_often_as_one_likes() -> None:
    kafka = KafkaContainer(port=9093).with_exposed_ports(9093).with_cluster_id("any").with_name("kafka")
    with pytest.raises(NeedsContainer, match="start it first"):
        kafka.get_bootstrap_server()
    for _ in range(2):
        assert kafka.start(timeout=60) is kafka
        assert kafka.get_exposed_port(9093) > 0
        with pytest.raises(NeedsContainer, match="9999 is not exposed"):
            kafka.get_exposed_port(9999)
        kafka.stop()
        kafka.stop()


def test_addresses_inside_and_outside_a_container_differ() -> None:
    variables = {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://elsewhere:9093",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_BROKER_ID": "1",
        "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        "KAFKA_LOG_DIRS": "/var/lib/kafka",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "SOMETHING_ELSE": "1",
    }
    with KafkaContainer(env={"KAFKA_NUM_PARTITIONS": "2"}).with_envs(**variables) as kafka:
        assert kafka.broker is not None
        assert kafka.broker.topics() == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda kafka: kafka.with_network("net"),
        lambda kafka: kafka.with_network_aliases("kafka"),
        lambda kafka: kafka.with_volume_mapping("/a", "/b"),
        lambda kafka: kafka.exec(["kafka-topics", "--list"]),
        lambda kafka: kafka.get_wrapped_container(),
        lambda _kafka: KafkaContainer(security_protocol="SASL_SSL"),
    ],
)
def test_methods_that_need_a_container_raise_a_clear_error(ask: Any) -> None:
    with pytest.raises(NeedsContainer, match=r".+"):
        ask(KafkaContainer())


def test_every_method_of_theirs_is_here_or_left_out_knowingly() -> None:
    ours, theirs = public_methods(KafkaContainer), public_methods(TheirContainer)
    assert set(theirs) - set(ours) == NOT_WITHOUT_A_CONTAINER & set(theirs)


def test_the_constructor_and_the_methods_take_what_theirs_take() -> None:
    ours, theirs = public_methods(KafkaContainer), public_methods(TheirContainer)
    for name in ("__init__", *(set(ours) & set(theirs))):
        theirs_names = list(inspect.signature(getattr(TheirContainer, name)).parameters)
        assert len(list(inspect.signature(getattr(KafkaContainer, name)).parameters)) >= min(len(theirs_names), 2), name
    first = list(inspect.signature(TheirContainer.__init__).parameters)
    assert list(inspect.signature(KafkaContainer.__init__).parameters) == first
