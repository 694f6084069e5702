"""Produces COUNT records with confluent-kafka and prints how long it took until all were acknowledged.

    python -m benchmarks.clients.confluent_produce BOOTSTRAP TOPIC COUNT SMALLEST_BYTES LARGEST_BYTES [KEY=VALUE ...]

Values are of equal size, or of sizes spread evenly between the two: noise, or text where compression.type is among the
settings. Everything that is not set is librdkafka's default, except acks=1 and a queue long enough for the loop never
to be what waits.
"""

import json
import random
import sys
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer

from benchmarks.clients.values import noise, text

AT_ONCE = 10_000
MOST_QUEUED = 400_000
MOST_QUEUED_BYTES = 400_000_000


def produce(
    bootstrap: str, topic: str, count: int, smallest_bytes: int, largest_bytes: int, settings: Mapping[str, str]
) -> float:
    """Seconds from the first record to the last acknowledgement. Raises RuntimeError when one was not acknowledged."""
    rng = random.Random(1)
    sizes = [rng.randint(smallest_bytes, largest_bytes) for _ in range(AT_ONCE)]
    made = text(rng, sizes) if "compression.type" in settings else noise(rng, sizes)
    messages = [{"value": value} for value in made]
    most_queued = min(MOST_QUEUED, MOST_QUEUED_BYTES // largest_bytes)
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "1",
            "queue.buffering.max.messages": most_queued + 2 * AT_ONCE,
            "error_cb": failures.append,
            **settings,
        }
    )
    producer.list_topics(topic, 10)
    began, left = time.perf_counter(), count
    while left:
        while len(producer) > most_queued:
            producer.poll(0.001)
        taken = producer.produce_batch(topic, messages[:left])
        if taken != min(left, AT_ONCE):
            raise RuntimeError(f"librdkafka took {taken} of {min(left, AT_ONCE)} records")
        left -= taken
    wait_for_all(producer, failures)
    return time.perf_counter() - began


def wait_for_all(producer: Producer, failures: Sequence[object]) -> None:
    """Wait for all acknowledgements. Raises RuntimeError when a record got none, or the producer had ``failures``."""
    unacknowledged = producer.flush(60)
    if unacknowledged or failures:
        raise RuntimeError(f"{unacknowledged} records without an answer, errors {failures}")


if __name__ == "__main__":
    given = dict(setting.split("=", 1) for setting in sys.argv[6:])
    records, smallest, largest = map(int, sys.argv[3:6])
    seconds = produce(sys.argv[1], sys.argv[2], records, smallest, largest, given)
    print(json.dumps({"seconds": seconds}))
