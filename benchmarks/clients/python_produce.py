"""Produces COUNT records with kafka-python, acks=1, and prints how long it took until all were acknowledged.

    python -m benchmarks.clients.python_produce BOOTSTRAP TOPIC COUNT RECORD_BYTES

Everything else is kafka-python's default; records go to the partitions in turn, as the client chooses without a key.
"""

import json
import random
import sys
import time

from kafka import KafkaProducer

from benchmarks.clients.values import noise

DIFFERENT = 1000
FLUSH_S = 60


def produce(bootstrap: str, topic: str, count: int, record_bytes: int) -> float:
    """Seconds from the first record to the last acknowledgement. Raises RuntimeError when one was not acknowledged."""
    values = noise(random.Random(1), [record_bytes] * DIFFERENT)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=1, enable_idempotence=False)
    producer.partitions_for(topic)
    failures: list[BaseException] = []
    began = time.perf_counter()
    for number in range(count):
        producer.send(topic, values[number % DIFFERENT]).add_errback(failures.append)
    producer.flush(FLUSH_S)
    took = time.perf_counter() - began
    producer.close()
    if failures:
        raise RuntimeError(f"{len(failures)} records were refused, the first with {failures[0]!r}")
    return took


if __name__ == "__main__":
    seconds = produce(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5]))
    print(json.dumps({"seconds": seconds}))
