"""Which release kafka-python takes the broker for; foreign/go/guesses_test.go has what franz-go does."""

import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient


@pytest.fixture
def release(in_zookeeper_mode: bool) -> tuple[int, int]:
    return (3, 9) if in_zookeeper_mode else (4, 3)


def test_kafka_python_takes_the_broker_for_the_release_that_it_serves(
    bootstrap_servers: str, release: tuple[int, int]
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    node = admin.describe_cluster()["controller_id"]
    assert admin.get_broker_version_data(node).broker_version == release
    admin.close()


def test_a_consumer_of_kafka_python_settles_on_that_release(bootstrap_servers: str, release: tuple[int, int]) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers)
    assert consumer.config["api_version"] == release
    consumer.close()
