"""Writes records evenly: BOOTSTRAP TOPIC COUNT RECORDS_PER_SECOND RECORD_BYTES."""

import json
import sys
import time

from confluent_kafka import Producer

STEPS_PER_S = 50


def main(bootstrap: str, topic: str, count: int, pace: int, record_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    value = b"v" * record_bytes
    began_s = time.monotonic()
    sent = 0
    while sent < count:
        due = min(count, int((time.monotonic() - began_s) * pace) + pace // STEPS_PER_S)
        for _ in range(due - sent):
            producer.produce(topic, value)
        sent = due
        producer.poll(1 / STEPS_PER_S)
    if producer.flush(60):
        sys.exit("not all records were delivered")
    print(json.dumps({"seconds": time.monotonic() - began_s}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
