"""confluent-kafka: delivery reports, errors on purpose, and a broker that dies in the middle."""

from confluent_kafka import Consumer, KafkaError, Message, Producer

from kpybroker.testing import Broker


class Outbox:
    """The program under test: sends events, and knows which of them could not be delivered."""

    def __init__(self, bootstrap_servers: str, **config: object) -> None:
        self.undelivered: list[bytes | None] = []
        self.producer = Producer({"bootstrap.servers": bootstrap_servers, "retry.backoff.ms": 10, **config})

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.undelivered.append(message.value())

    def send(self, topic: str, *events: bytes) -> None:
        for event in events:
            self.producer.produce(topic, event, on_delivery=self._delivered)
        self.producer.flush(20)


def test_events_arrive_in_order(kpybroker: Broker, topic: str) -> None:
    outbox = Outbox(kpybroker.bootstrap_servers)
    outbox.send(topic, b"one", b"two", b"three")
    kpybroker.assert_records(topic, ["one", "two", "three"])
    assert not outbox.undelivered


def test_a_lost_acknowledgement_does_not_write_twice(kpybroker: Broker, topic: str) -> None:
    kpybroker.faults.disconnect("Produce", served=True, topic=topic, times=1)
    Outbox(kpybroker.bootstrap_servers, **{"enable.idempotence": True}).send(topic, b"once")
    kpybroker.assert_records(topic, ["once"])


def test_refused_requests_have_known_errors(kpybroker: Broker, topic: str) -> None:
    kpybroker.faults.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", topic=topic)
    outbox = Outbox(kpybroker.bootstrap_servers)
    outbox.send(topic, b"refused")
    assert outbox.undelivered == [b"refused"]
    kpybroker.assert_records(topic, [])


def test_a_broker_that_dies_keeps_what_it_acknowledged(kpybroker: Broker, topic: str) -> None:
    outbox = Outbox(kpybroker.bootstrap_servers)
    outbox.send(topic, b"before")
    kpybroker.restart(clean=False)
    outbox.send(topic, b"after")
    consumer = Consumer(
        {"bootstrap.servers": kpybroker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    messages = consumer.consume(2, timeout=20)
    consumer.close()
    assert [message.value() for message in messages] == [b"before", b"after"]
