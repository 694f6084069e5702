"""Producing the flights with kafka-python: the event time is the record's timestamp, the carrier its key."""

from collections.abc import Iterable

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from kpybroker.pipeline.demo.dataset import Flight
from kpybroker.pipeline.demo.progress import Advance

PARTITIONS = 4
KEEP = {"retention.ms": "-1"}
"""Retention goes by the records' timestamps, and those are of 2013."""


class TopicsExist(RuntimeError):
    """The demo counts what is in its topics, so they must be new."""


def create_topics(bootstrap_servers: str, names: Iterable[str]) -> None:
    """Raises TopicsExist."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=KEEP) for name in names])
    except TopicAlreadyExistsError:
        raise TopicsExist(f"the topics {' and '.join(names)} must not exist: delete them first") from None
    finally:
        admin.close()


def send(bootstrap_servers: str, topic: str, flights: Iterable[Flight], sent: Advance) -> None:
    """Produce them idempotently with acks=all; ``sent`` is called after every thousand. Raises KafkaError."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=20, batch_size=128 * 1024)
    try:
        futures = []
        for flight in flights:
            key = flight.carrier.encode()
            futures.append(producer.send(topic, flight.to_json(), key=key, timestamp_ms=flight.time_ms))
            if len(futures) % 1000 == 0:
                sent(1000)
        producer.flush()
        for future in futures:
            future.get(timeout=0)
        sent(len(futures) % 1000)
    finally:
        producer.close()
