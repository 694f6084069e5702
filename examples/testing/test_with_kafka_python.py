"""kafka-python: an enricher that reads orders and writes priced ones, tested against a real broker without Java."""

import json
import threading
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kpybroker.testing import Broker

PRICES = {"apple": 3, "pear": 4}


class Enricher:
    """The program under test: adds a price to each order, commits when the result is written."""

    def __init__(self, bootstrap_servers: str, source: str, target: str) -> None:
        self.target = target
        self.over = threading.Event()
        self.producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        self.consumer = KafkaConsumer(
            source,
            bootstrap_servers=bootstrap_servers,
            group_id="enricher",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )

    def run(self) -> None:
        while not self.over.is_set():
            for messages in self.consumer.poll(timeout_ms=370).values():
                for message in messages:
                    order = json.loads(message.value)
                    order["price"] = PRICES[order["item"]] * order["count"]
                    self.producer.send(self.target, key=message.key, value=json.dumps(order).encode())
                self.producer.flush()
                self.consumer.commit()
        self.consumer.close()
        self.producer.close()


@pytest.fixture
def start(kpybroker: Broker) -> Iterator[Callable[[str, str], Enricher]]:
    """Starts enrichers in threads and ends them after the test."""
    running: list[tuple[Enricher, threading.Thread]] = []

    def start(source: str, target: str) -> Enricher:
        enricher = Enricher(kpybroker.bootstrap_servers, source, target)
        thread = threading.Thread(target=enricher.run)
        thread.start()
        running.append((enricher, thread))
        return enricher

    yield start
    for enricher, thread in running:
        enricher.over.set()
        thread.join(10)


def test_orders_get_their_price(kpybroker: Broker, topic: str, start: Callable[[str, str], Enricher]) -> None:
    kpybroker.produce(topic, ("ada", {"item": "apple", "count": 2}), ("bob", {"item": "pear", "count": 1}))
    start(topic, "priced")
    kpybroker.assert_records(
        "priced",
        [("ada", {"item": "apple", "count": 2, "price": 6}), ("bob", {"item": "pear", "count": 1, "price": 4})],
        timeout_s=10,
    )
    kpybroker.assert_committed("enricher", {(topic, 0): 2})


def test_a_moved_leader_costs_no_order(kpybroker: Broker, topic: str, start: Callable[[str, str], Enricher]) -> None:
    kpybroker.create_topic("priced-again")
    fault = kpybroker.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="priced-again", times=2)
    kpybroker.produce(topic, {"item": "apple", "count": 1})
    start(topic, "priced-again")
    kpybroker.assert_records("priced-again", [{"json": {"item": "apple", "count": 1, "price": 3}}], timeout_s=10)
    assert fault.hits == 2
