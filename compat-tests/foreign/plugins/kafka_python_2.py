"""For kafka-python 2's own integration tests: their fixtures, which the package leaves out, on a running broker.

KAFKA_BOOTSTRAP names the broker. The fixtures have the names and defaults that the tests count on.
"""

import os
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from kafka.admin import KafkaAdminClient, NewTopic

PARTITIONS = 4

package = types.ModuleType("test")  # else the standard library's, for want of an __init__.py beside the tests
package.__path__ = [str(Path("test").resolve())]
sys.modules["test"] = package


class RunningBroker:
    """The broker's address, which the tests put together themselves."""

    def __init__(self, address: str) -> None:
        self.host, port = address.split(":")
        self.port = int(port)
        self.bootstrap_servers = address


@pytest.fixture(scope="session")
def kafka_broker() -> RunningBroker:
    return RunningBroker(os.environ["KAFKA_BOOTSTRAP"])


@pytest.fixture
def kafka_admin_client(kafka_broker: RunningBroker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)
    yield client
    client.close()


@pytest.fixture
def topic(kafka_admin_client: Any) -> str:
    """A new topic with four partitions."""
    name = f"test_{uuid.uuid4().hex}"
    kafka_admin_client.create_topics([NewTopic(name, PARTITIONS, 1)])
    return name


@pytest.fixture
def kafka_consumer_factory(kafka_broker: RunningBroker, topic: str) -> Iterator[Callable[..., Any]]:
    """Consumers of the topic, of a group only where the test names one."""
    made = []

    def make(**params: Any) -> Any:
        defaults = {"heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}
        consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=kafka_broker.bootstrap_servers, **{**defaults, **params}
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(autocommit=False)


@pytest.fixture
def kafka_consumer(kafka_consumer_factory: Callable[..., Any]) -> Any:
    return kafka_consumer_factory()


@pytest.fixture
def kafka_producer_factory(kafka_broker: RunningBroker) -> Iterator[Callable[..., Any]]:
    made = []

    def make(**params: Any) -> Any:
        producer = kafka.KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers, **params)
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def kafka_producer(kafka_producer_factory: Callable[..., Any]) -> Any:
    return kafka_producer_factory()


@pytest.fixture
def send_messages(topic: str, kafka_producer: Any, request: pytest.FixtureRequest) -> Callable[..., list[bytes]]:
    """Sends a message of the test's name for every number, and waits for the acknowledgements."""

    def send(numbers: range, partition: int = 0) -> list[bytes]:
        messages = [f"{number}-{request.node.name}-{uuid.uuid4()}".encode() for number in numbers]
        futures = [kafka_producer.send(topic, value=message, partition=partition) for message in messages]
        kafka_producer.flush()
        assert all(future.succeeded() for future in futures)
        return messages

    return send
