"""Clients of a test push their metrics, and the test reads what they have measured."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kpybroker.testing import AsyncBroker, Broker, ClientMetrics
from oracle.jars import compile_java, jvm
from support.waiting import eventually

JAVA = Path(__file__).parents[2] / "compat-tests" / "java"
RECORDS = 25
CONSUMED = "records.consumed.total"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.subscribe_to_client_metrics(interval_ms=100)
        yield running


@pytest.mark.java
def test_metrics_of_a_java_consumer_are_read(broker: Broker) -> None:
    broker.produce("flights", *(b"x" * 10 for _ in range(RECORDS)))
    machine = jvm(compile_java(JAVA / "MeasuredConsumer.java"), heap="128m")
    arguments = [broker.bootstrap_servers, "flights", "readers", str(RECORDS), "30"]
    with subprocess.Popen([*machine, "MeasuredConsumer", *arguments], stdout=subprocess.PIPE, text=True) as consumer:
        try:
            assert consumer.stdout is not None
            instance_id = consumer.stdout.readline().strip()
            found = measured_by(broker, RECORDS)
        finally:
            consumer.kill()
    assert found.instance_id == instance_id
    assert found.software[0] == "apache-kafka-java"
    assert found.labels["group_id"] == "readers"
    assert found.value("fetch.manager.fetch.latency.avg") >= 0


def measured_by(broker: Broker, records: int) -> ClientMetrics:
    """The metrics of the Java consumer, once it has pushed that it has read all records."""

    def read_all() -> ClientMetrics | None:
        found = broker.wait_for_client_metrics("measured", "fetch.manager.records.consumed.total", timeout_s=60)
        total = max(found.values("fetch.manager.records.consumed.total"))
        assert total <= records
        return found if total == records else None

    return eventually(read_all, f"the push after {records} records")


def test_metrics_of_a_librdkafka_producer_are_read(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "writer"})
    producer.produce("flights", b"x")
    producer.flush()
    found = broker.wait_for_client_metrics("writer", "producer.connection.creation.total")
    assert found.software[0] == "confluent-kafka-python"
    assert found.value("producer.node.request.latency.max", node_id="1") >= 0
    with pytest.raises(AssertionError, match="writer has 0 values for nothing; it has pushed"):
        found.value("nothing")
    assert broker.client_metrics("nobody") == []
    del producer


def test_a_consumer_of_librdkafka_is_forgotten_when_it_has_gone(broker: Broker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "reader", "group.id": "g"})
    consumer.subscribe(["flights"])
    consumer.poll(1)
    assert broker.wait_for_client_metrics("reader", "consumer.connection.creation.total").client_id == "reader"
    consumer.close()
    del consumer
    eventually(lambda: not broker.client_metrics("reader"))


async def _nothing_pushed() -> None:
    async with AsyncBroker() as broker:
        assert await broker.client_metrics() == []
        with pytest.raises(AssertionError, match="client nobody pushed nothing"):
            await broker.wait_for_client_metrics("nobody", "x", timeout_s=0)


def test_a_client_that_pushes_nothing_fails_the_test_with_its_name() -> None:
    import asyncio

    asyncio.run(_nothing_pushed())
