"""Fills a topic with confluent-kafka: the same batches in the same partitions, whichever broker acknowledges them.

A producer that sends as soon as it may makes smaller batches for a broker that acknowledges sooner. A reader of them
receives more bytes, since a batch that the end of a Fetch cuts off comes once more. So each record has its partition
here, and a batch is sent when it has its number of records, or at the end.

    python -m benchmarks.clients.confluent_fill BOOTSTRAP TOPIC PARTITIONS COUNT SMALLEST_BYTES LARGEST_BYTES
        [KEY=VALUE ...]
"""

import json
import random
import sys
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Producer

from benchmarks.clients.confluent_produce import AT_ONCE, MOST_QUEUED, MOST_QUEUED_BYTES, wait_for_all
from benchmarks.clients.values import noise, text

BATCH_BYTES = 950_000
"""A little less than librdkafka's ``batch.size``, so that the number of records alone ends a batch."""
MOST_AROUND_VALUE_BYTES = 11
LINGER_MS = 60_000


def batch_records(largest_bytes: int) -> int:
    """The number of records in a batch."""
    return max(1, min(AT_ONCE, BATCH_BYTES // (largest_bytes + MOST_AROUND_VALUE_BYTES)))


def shares(count: int, partitions: int, most: int) -> Iterator[tuple[int, int]]:
    """(partition, number of records) of each batch, in the order of sending: the partitions take turns."""
    left = [count // partitions + (index < count % partitions) for index in range(partitions)]
    while any(left):
        for index in range(partitions):
            taken = min(most, left[index])
            left[index] -= taken
            if taken:
                yield index, taken


def fill(
    bootstrap: str,
    topic: str,
    partitions: int,
    count: int,
    smallest_bytes: int,
    largest_bytes: int,
    settings: Mapping[str, str],
) -> float:
    """Seconds from the first record to the last acknowledgement. Raises RuntimeError when one was not acknowledged."""
    rng = random.Random(1)
    sizes = [rng.randint(smallest_bytes, largest_bytes) for _ in range(AT_ONCE)]
    made = text(rng, sizes) if "compression.type" in settings else noise(rng, sizes)
    messages = [{"value": value} for value in made]
    in_a_batch = batch_records(largest_bytes)
    most_queued = max(min(MOST_QUEUED, MOST_QUEUED_BYTES // largest_bytes), partitions * in_a_batch)
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "1",
            "linger.ms": LINGER_MS,
            "batch.num.messages": in_a_batch,
            "queue.buffering.max.messages": most_queued + AT_ONCE,
            "queue.buffering.max.kbytes": 2_000_000,
            "error_cb": failures.append,
            **settings,
        }
    )
    producer.list_topics(topic, 10)
    began = time.perf_counter()
    for index, taken in shares(count, partitions, in_a_batch):
        while len(producer) > most_queued:
            producer.poll(0.001)
        if producer.produce_batch(topic, messages[:taken], partition=index) != taken:
            raise RuntimeError(f"librdkafka did not take all of {taken} records")
    wait_for_all(producer, failures)
    return time.perf_counter() - began


if __name__ == "__main__":
    given = dict(setting.split("=", 1) for setting in sys.argv[7:])
    parts, records, smallest, largest = map(int, sys.argv[3:7])
    seconds = fill(sys.argv[1], sys.argv[2], parts, records, smallest, largest, given)
    print(json.dumps({"seconds": seconds}))
