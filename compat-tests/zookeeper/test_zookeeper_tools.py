"""Users and configs of brokers that Kafka 3.9's ``kafka-configs --zookeeper`` writes before the first broker starts."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource
from kazoo.client import KazooClient

from oracle import free_port, jars, java
from oracle.zookeeper import ZooKeeper
from support.zookeeper_clients import soon
from support.zookeeper_clusters import KpyOnZooKeeper

pytestmark = pytest.mark.java

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"
ENCODER = "password.encoder.secret=a secret of passwords"


def altered(connect: str, kind: str, name: str, configs: str) -> None:
    done = java(
        "kafka.admin.ConfigCommand",
        *("--zookeeper", connect, "--alter", "--entity-type", kind, "--entity-name", name, "--add-config", configs),
        release=jars.KAFKA_BEFORE_4,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_credentials_written_by_the_tool_apply_at_the_first_start(tmp_path: Path) -> None:
    port, secured = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured}"
    configs = {
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "inter.broker.listener.name": "PLAINTEXT",
        "password.encoder.secret": "a secret of passwords",
        JAAS: f"{SCRAM_MODULE} required;",
    }
    with ZooKeeper(directory=tmp_path / "zookeeper") as zookeeper:
        connect = f"{zookeeper.bootstrap_servers}/kafka"
        tree = KazooClient(zookeeper.bootstrap_servers)
        tree.start()
        tree.create("/kafka")
        altered(connect, "users", "alice", "SCRAM-SHA-256=[iterations=4096,password=wonder]")
        altered(connect, "brokers", "4", f"log.cleaner.threads=2,{JAAS}={SCRAM_MODULE} required;,{ENCODER}")
        written = tree.get("/kafka/config/brokers/4")[0]
        assert SCRAM_MODULE.encode() not in written
        with KpyOnZooKeeper(4, connect, configs, directory=tmp_path / "broker", port=port) as broker:
            assert "could not be decoded" not in broker.output.read_text()
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "4")]).values()
            found = described.result(10)
            assert found["log.cleaner.threads"].value == "2"
            of_this_broker = ConfigSource.DYNAMIC_BROKER_CONFIG.value
            assert (found[JAAS].is_sensitive, found[JAAS].source) == (True, of_this_broker)
            login = {
                "bootstrap.servers": f"127.0.0.1:{secured}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "log_level": 0,
            }
            soon(lambda: AdminClient({**login, "sasl.password": "wonder"}).list_topics(timeout=10).brokers)
            with pytest.raises(KafkaException):
                AdminClient({**login, "sasl.password": "guess"}).list_topics(timeout=3)
            assert tree.get("/kafka/config/brokers/4")[0] == written
        tree.stop()
        tree.close()
