"""Clients of clusters in ZooKeeper, for tests: topics, and records that are numbers."""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.waiting import eventually

PATIENCE_S: Final = 60.0


def soon(look: Callable[[], Any]) -> Any:
    """The first result that is true. While brokers and controllers change, clients are refused, and ask again."""
    return eventually(look, within_s=PATIENCE_S, every_s=0.1, despite=(KafkaException,))


def create(admin: AdminClient, name: str, partitions: int, replicas: int = 2, **config: str) -> None:
    topic = NewTopic(name, partitions, replicas, config={key.replace("_", "."): value for key, value in config.items()})
    admin.create_topics([topic])[name].result(30)


def create_soon(admin: AdminClient, topic: str) -> None:
    """Create a topic. While the controller changes, clients are refused, and ask again."""

    def is_there() -> bool:
        if not partitions_of(admin, topic):
            create(admin, topic, 2, replicas=2)
        return True

    soon(is_there)


def partitions_of(admin: AdminClient, topic: str) -> dict[int, Any]:
    found = admin.list_topics(timeout=10).topics.get(topic)
    return {} if found is None or found.error else dict(found.partitions)


def is_in_sync(admin: AdminClient, topic: str) -> bool:
    found = partitions_of(admin, topic).values()
    return bool(found) and all(sorted(each.isrs) == sorted(each.replicas) and each.leader >= 0 for each in found)


def produce(servers: str, topic: str, count: int, first: int = 0, **more: str) -> None:
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, **more})
    for number in range(first, first + count):
        producer.produce(
            topic, str(number).encode(), str(number).encode(), on_delivery=lambda e, _m: e and refused.append(e)
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert not refused


def consume(servers: str, topic: str, count: int, group: str = "readers") -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(int(message.value() or b"-1"))
    if values:
        consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(values)
