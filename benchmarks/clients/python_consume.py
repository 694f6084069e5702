"""Reads COUNT records of a topic with kafka-python, all partitions assigned from their start.

python -m benchmarks.clients.python_consume BOOTSTRAP TOPIC PARTITIONS COUNT
"""

import json
import sys
import time

from kafka import KafkaConsumer, TopicPartition

AT_ONCE = 10_000
PATIENCE_MS = 10_000


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Seconds from the assignment to the last record. Raises RuntimeError when the broker stops answering before."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, max_poll_records=AT_ONCE)
    consumer.partitions_for_topic(topic)
    assigned = [TopicPartition(topic, index) for index in range(partitions)]
    began, left = time.perf_counter(), count
    consumer.assign(assigned)
    consumer.seek_to_beginning(*assigned)
    while left > 0:
        polled = consumer.poll(PATIENCE_MS)
        if not polled:
            raise RuntimeError(f"no record for {PATIENCE_MS} ms with {left} to come")
        left -= sum(map(len, polled.values()))
    took = time.perf_counter() - began
    consumer.close()
    return took


if __name__ == "__main__":
    seconds = consume(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps({"seconds": seconds}))
