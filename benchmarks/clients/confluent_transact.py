"""Produces COUNT committed records with confluent-kafka, in transactions, some of which are aborted.

    python -m benchmarks.clients.confluent_transact BOOTSTRAP TOPIC COUNT BYTES IN_ONE ABORTED_OF

Each transaction has IN_ONE records; every ABORTED_OF-th is aborted, and comes in addition. Prints how long it took.
"""

import json
import random
import sys
import time
import uuid

from confluent_kafka import Producer

from benchmarks.clients.values import noise

CALL_TIMEOUT_S = 60


def transact(bootstrap: str, topic: str, count: int, record_bytes: int, in_one: int, aborted_of: int) -> float:
    """Seconds from the first transaction to the end of the last. Raises KafkaException."""
    values = noise(random.Random(1), [record_bytes] * in_one)
    messages = [{"value": value} for value in values]
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"benchmark-{uuid.uuid4().hex[:8]}"})
    producer.init_transactions(CALL_TIMEOUT_S)
    began, left, number = time.perf_counter(), count, 0
    while left:
        number += 1
        producer.begin_transaction()
        producer.produce_batch(topic, messages[:left])
        if number % aborted_of:
            producer.commit_transaction(CALL_TIMEOUT_S)
            left -= min(left, in_one)
        else:
            producer.flush(CALL_TIMEOUT_S)
            producer.abort_transaction(CALL_TIMEOUT_S)
    return time.perf_counter() - began


if __name__ == "__main__":
    seconds = transact(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7]))
    print(json.dumps({"seconds": seconds}))
