"""Environment variables of Kafka's images become the configs they stand for."""

import pytest

from kpybroker.config.environment import from_environment


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("KAFKA_LISTENER_NAME_MY__LISTENER_MAX_CONNECTIONS", "listener.name.my_listener.max.connections"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_CFG_NODE_ID", "node.id"),
    ],
)
def test_names_follow_the_rule_of_the_image(variable, name):
    assert from_environment({variable: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "variable",
    [
        "PATH",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_VERSION",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_JMX_PORT",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_PORT",
        "KAFKA_PORT_9092_TCP_ADDR",
        "KAFKA_SERVICE_HOST",
        "CLUSTER_ID",
    ],
)
def test_variables_for_a_jvm_or_made_by_kubernetes_are_no_configs(variable):
    assert from_environment({variable: "tcp://10.0.0.1:9092"}) == {}


def test_listeners_follow_from_what_is_advertised():
    configs = from_environment({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,OUTSIDE://[::1]:29092"})
    assert configs["listeners"] == "PLAINTEXT://0.0.0.0:9092,OUTSIDE://0.0.0.0:29092"


def test_listeners_that_are_given_stay():
    environment = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092", "KAFKA_LISTENERS": "PLAINTEXT://:9092"}
    assert from_environment(environment)["listeners"] == "PLAINTEXT://:9092"


def test_a_controller_listens_on_nothing_it_was_not_told():
    environment = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092", "KAFKA_PROCESS_ROLES": "controller"}
    assert "listeners" not in from_environment(environment)


def test_the_longer_prefix_wins():
    assert from_environment({"KAFKA_CFG_NODE_ID": "2", "KAFKA_NODE_ID": "1"}) == {"node.id": "2"}
