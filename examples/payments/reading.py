"""The contents of the topics at the end, read by kafka-python from their beginnings to their ends."""

import json
import time
from collections.abc import Iterator

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

from examples.payments import BALANCES_TOPIC, PAYMENTS_TOPIC, PROGRESS_TOPIC
from examples.payments.baskets import Total, Totals

PATIENCE_S = 60.0
PAYMENTS_PARTITIONS = 4


def create_topics(bootstrap_servers: str, tills: int) -> None:
    """Payments; how far each till came, in a partition of its own; the balances. Raises KafkaError."""
    newest_only = {"cleanup.policy": "compact"}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics(
            [
                NewTopic(PAYMENTS_TOPIC, PAYMENTS_PARTITIONS, 1),
                NewTopic(PROGRESS_TOPIC, tills, 1, topic_configs=newest_only),
                NewTopic(BALANCES_TOPIC, 1, 1, topic_configs=newest_only),
            ]
        )
    finally:
        admin.close()


def records(
    bootstrap_servers: str, topic: str, isolation: str, partition: int | None = None
) -> Iterator[ConsumerRecord]:
    """All that is there, of one partition or all of them. Raises KafkaError."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level=isolation, auto_offset_reset="earliest"
    )
    try:
        numbers = consumer.partitions_for_topic(topic) or () if partition is None else (partition,)
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        deadline_s = time.monotonic() + PATIENCE_S
        while any(consumer.position(each) < ends[each] for each in partitions):
            if time.monotonic() > deadline_s:
                raise KafkaError(f"{topic} cannot be read to its end")
            for polled in consumer.poll(timeout_ms=500).values():
                yield from polled
    finally:
        consumer.close(autocommit=False)


def count(bootstrap_servers: str, topic: str, isolation: str) -> int:
    """How many records a reader of this isolation level finds. Raises KafkaError."""
    return sum(1 for _ in records(bootstrap_servers, topic, isolation))


def newest_balances(bootstrap_servers: str) -> Totals:
    """The last record of every account. Raises KafkaError."""
    newest: Totals = {}
    for record in records(bootstrap_servers, BALANCES_TOPIC, "read_committed"):
        newest[record.key.decode()] = Total(**json.loads(record.value))
    return newest
