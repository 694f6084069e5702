"""A cluster of three nodes: a program that must not lose orders, and a node that dies while it writes them."""

from confluent_kafka import Consumer, KafkaError, Message, Producer

from kpybroker.testing import Cluster


class OrderBook:
    """The program under test: an order counts when the cluster has it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.accepted: list[bytes] = []
        config = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
        self.producer = Producer(config)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.accepted.append(value)

    def take(self, topic: str, order: bytes) -> None:
        self.producer.produce(topic, order, on_delivery=self._delivered)
        self.producer.poll(0)

    def close(self) -> None:
        self.producer.flush(30)


def read_all(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "auditors", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < count:
        found += [message.value() or b"" for message in consumer.consume(100, 1) if message.error() is None]
    consumer.close()
    return found


def test_no_order_is_lost_when_the_leader_is_killed(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.create_topic("orders")
    book = OrderBook(kafka_cluster.bootstrap_servers)
    for number in range(1000):
        book.take(topic, b"%d" % number)
        if number == 500:
            kafka_cluster.kill(kafka_cluster.leader(topic))
    book.close()
    assert len(book.accepted) == 1000
    assert read_all(kafka_cluster.bootstrap_servers, topic, 1000) == [b"%d" % number for number in range(1000)]


def test_the_node_that_died_has_them_too_when_it_is_back(kafka_cluster: Cluster) -> None:
    assert kafka_cluster.running == [1, 2, 3]
    kafka_cluster.wait_for_in_sync("orders")
    assert kafka_cluster.in_sync("orders") == {1, 2, 3}
