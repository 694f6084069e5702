"""Reads COUNT records of a topic with confluent-kafka, all partitions assigned from their start.

Prints how long it took. The client's queue is as long as the topic, for librdkafka stops fetching for a second when it
is full, and then measures its own pause.

    python -m benchmarks.clients.confluent_consume BOOTSTRAP TOPIC PARTITIONS COUNT [KEY=VALUE ...]
"""

import json
import sys
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

AT_ONCE = 10_000


def opened(bootstrap: str, settings: Mapping[str, str]) -> Consumer:
    """A consumer that has no partitions yet."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_000_000,
            **settings,
        }
    )


def assigned(topic: str, partitions: int) -> list[TopicPartition]:
    """All partitions, from their start."""
    return [TopicPartition(topic, index, 0) for index in range(partitions)]


def read(consumer: Consumer, count: int) -> None:
    """Take this many records. Raises RuntimeError when the broker stops answering before."""
    left = count
    while left:
        messages = consumer.consume(min(AT_ONCE, left), 10)
        if not messages:
            raise RuntimeError(f"no record for 10 s with {left} to come")
        left -= len(messages)
    if any(message.error() for message in messages):
        raise RuntimeError("an error among the last records")


def consume(bootstrap: str, topic: str, partitions: int, count: int, settings: Mapping[str, str]) -> float:
    """Seconds from the assignment to the last record. Raises RuntimeError when the broker stops answering before."""
    consumer = opened(bootstrap, settings)
    consumer.list_topics(topic, 10)
    began = time.perf_counter()
    consumer.assign(assigned(topic, partitions))
    read(consumer, count)
    took = time.perf_counter() - began
    consumer.close()
    return took


if __name__ == "__main__":
    given = dict(setting.split("=", 1) for setting in sys.argv[5:])
    seconds = consume(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), given)
    print(json.dumps({"seconds": seconds}))
