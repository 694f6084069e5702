"""A program that logs in over TLS: what its user may do, and what happens when it may not."""

from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from kpybroker.testing import Broker, Security, allow


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = Security(users=["shop", "guest"], acls=[allow("shop", "WRITE", topic="orders")])
    with Broker(security=security) as broker:
        broker.create_topic("orders")
        yield broker


def send_as(broker: Broker, user: str) -> None:
    producer = KafkaProducer(**broker.access.client(user).kafka_python())
    try:
        producer.send("orders", b"apples").get(10)
    finally:
        producer.close()


def test_the_shop_may_order(broker: Broker) -> None:
    send_as(broker, "shop")
    broker.assert_records("orders", [b"apples"])


def test_a_guest_may_not(broker: Broker) -> None:
    with pytest.raises(TopicAuthorizationFailedError):
        send_as(broker, "guest")
