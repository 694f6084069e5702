"""Produces COUNT records with confluent-kafka, acks=1, and prints how long it took until all were acknowledged.

    python -m benchmarks.clients.confluent_produce BOOTSTRAP TOPIC COUNT SMALLEST_BYTES LARGEST_BYTES

Values are incompressible and of equal size, or of sizes spread evenly between the two. Everything else is librdkafka's
default, except a queue long enough for the loop never to be what waits.
"""

import json
import random
import sys
import time

from confluent_kafka import Producer

AT_ONCE = 10_000
MOST_QUEUED = 400_000


def produce(bootstrap: str, topic: str, count: int, smallest_bytes: int, largest_bytes: int) -> float:
    """Seconds from the first record to the last acknowledgement. Raises RuntimeError when one was not acknowledged."""
    rng = random.Random(1)
    sizes = [rng.randint(smallest_bytes, largest_bytes) for _ in range(AT_ONCE)]
    messages = [{"value": rng.randbytes(size)} for size in sizes]
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": 1,
            "queue.buffering.max.messages": MOST_QUEUED + 2 * AT_ONCE,
            "error_cb": failures.append,
        }
    )
    producer.list_topics(topic, 10)
    began, left = time.perf_counter(), count
    while left:
        while len(producer) > MOST_QUEUED:
            producer.poll(0.001)
        taken = producer.produce_batch(topic, messages[:left])
        if taken != min(left, AT_ONCE):
            raise RuntimeError(f"librdkafka took {taken} of {min(left, AT_ONCE)} records")
        left -= taken
    unacknowledged = producer.flush(60)
    took = time.perf_counter() - began
    if unacknowledged or failures:
        raise RuntimeError(f"{unacknowledged} records without an answer, errors {failures}")
    return took


if __name__ == "__main__":
    seconds = produce(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
    print(json.dumps({"seconds": seconds}))
