"""Environment variables of Kafka's images become the configs they stand for."""

from pathlib import Path

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.environment import OF_SECRETS, from_environment
from kpybroker.machines.config_def import ConfigError


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


def test_a_controller_listens_only_on_configured_listeners():
    environment = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092", "KAFKA_PROCESS_ROLES": "controller"}
    assert "listeners" not in from_environment(environment)


def test_the_longer_prefix_wins():
    assert from_environment({"KAFKA_CFG_NODE_ID": "2", "KAFKA_NODE_ID": "1"}) == {"node.id": "2"}


@pytest.mark.parametrize(
    ("value", "configs"),
    [
        ("a\\\n   b", {"x": "ab"}),
        ("a\\tb\\\\c\\u00e9", {"x": "a\tb\\c\u00e9"}),
        ("a\ny.z: c\n# no\n", {"x": "a", "y.z": "c"}),
        ("  a = b # c ", {"x": "a = b # c "}),
        ("", {"x": ""}),
    ],
)
def test_a_value_means_what_it_means_in_a_properties_file(value, configs):
    assert from_environment({"KAFKA_X": value}) == configs


def test_an_escape_that_is_none_names_its_variable():
    with pytest.raises(ConfigError, match="KAFKA_X:1: malformed"):
        from_environment({"KAFKA_X": "\\u12"})


def test_listeners_that_are_empty_count_as_missing():
    environment = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092", "KAFKA_LISTENERS": ""}
    assert from_environment(environment)["listeners"] == "PLAINTEXT://0.0.0.0:9092"
    assert from_environment({"KAFKA_ADVERTISED_LISTENERS": "", "KAFKA_NODE_ID": "1"}) == {"node.id": "1"}


FILES = {variable: variable.rpartition("_")[0].lower() for variable in OF_SECRETS}
ADVERTISED = {"KAFKA_ADVERTISED_LISTENERS": "SSL://kafka:9093", "KAFKA_LISTENERS": "SSL://:9093"}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    for name in FILES.values():
        (tmp_path / name).write_text("a\\\\b\n\n")
    return tmp_path


def test_files_of_secrets_are_read(secrets):
    configs = from_environment({**ADVERTISED, **FILES}, secrets)
    assert configs == {
        "advertised.listeners": "SSL://kafka:9093",
        "listeners": "SSL://:9093",
        "ssl.keystore.location": str(secrets / "kafka_ssl_keystore"),
        "ssl.keystore.password": "a\\b",
        "ssl.key.password": "a\\b",
        "ssl.truststore.location": str(secrets / "kafka_ssl_truststore"),
        "ssl.truststore.password": "a\\b",
    }


def test_files_of_secrets_count_first_where_tls_is_advertised(secrets):
    location = {"KAFKA_SSL_KEYSTORE_LOCATION": "/elsewhere"}
    named = str(secrets / "kafka_ssl_keystore")
    assert from_environment({**FILES, **location}, secrets)["ssl.keystore.location"] == "/elsewhere"
    assert from_environment({**ADVERTISED, **FILES, **location}, secrets)["ssl.keystore.location"] == named


def test_a_missing_file_of_secrets_is_named(secrets):
    with pytest.raises(ConfigError, match=r"KAFKA_SSL_KEY_CREDENTIALS names a file that does not exist: .*/nothing"):
        from_environment({"KAFKA_SSL_KEY_CREDENTIALS": "nothing"}, secrets)
    trusted = {"KAFKA_SSL_TRUSTSTORE_FILENAME": "nothing"}
    assert from_environment(trusted, secrets) == {}
    with pytest.raises(ConfigError, match="KAFKA_SSL_TRUSTSTORE_FILENAME names"):
        from_environment({**trusted, "KAFKA_SSL_CLIENT_AUTH": "required"}, secrets)


def test_files_of_secrets_may_be_for_one_listener(secrets):
    variables = {
        "KAFKA_LISTENER_NAME_MY__OWN_SSL_KEYSTORE_FILENAME": "kafka_ssl_keystore",
        "KAFKA_LISTENER_NAME_MY__OWN_SSL_KEYSTORE_LOCATION": "/elsewhere",
        "KAFKA_LISTENER_NAME_MY__OWN_SSL_KEY_CREDENTIALS": "kafka_ssl_key",
        "KAFKA_LISTENER_NAME_MY__OWN_SSL_TRUSTSTORE_FILENAME": "missing",
    }
    assert from_environment(variables, secrets) == {
        "listener.name.my_own.ssl.keystore.location": "/elsewhere",
        "listener.name.my_own.ssl.key.password": "a\\b",
    }


@pytest.mark.parametrize(
    ("variable", "name"), [("SECURITY_PROTOCOL", "security.protocol"), ("SASL_MECHANISM", "sasl.mechanism")]
)
def test_configs_of_clients_in_compose_files_have_no_effect(variable, name):
    config = BrokerConfig(
        from_environment({f"KAFKA_{variable}": "SSL", "KAFKA_LISTENERS": "PLAINTEXT://localhost:9092"})
    )
    assert config.warnings == [f"{name} is not a config that is known here, it is ignored"]
