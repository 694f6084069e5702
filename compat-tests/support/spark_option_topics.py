"""A broker with some small topics of all kinds, for queries that are compared."""

from confluent_kafka import Producer

from kpybroker.client.client import Client, Spot
from kpybroker.client.offset_requests import delete_records
from kpybroker.testing import Broker, Record

EARLY_MS = 1_600_000_000_000
"""The time of the first records; others follow by a millisecond each."""
LATE_MS = EARLY_MS + 19
PARTITIONS = {"orders": 2, "orders.eu": 1, "reorders": 1, "paid-orders": 1, "empty": 1, "gone": 1, "three": 3}
PATIENCE_S = 30


def fill(broker: Broker) -> None:
    """Create and fill the topics."""
    for name, partitions in PARTITIONS.items():
        config = {"retention.ms": -1, "cleanup.policy": "compact" if name == "reorders" else "delete"}
        broker.create_topic(name, partitions, config=config)
    broker.produce("orders", *(_record(number) for number in range(20)), partition=0)
    broker.produce("orders.eu", *(_record(number) for number in range(12)), partition=0)
    broker.produce("reorders", *(Record(b"%d" % at, b"k%d" % (at % 4), timestamp_ms=EARLY_MS + at) for at in range(20)))
    broker.compact_topic("reorders")
    broker.produce("gone", *(_record(number) for number in range(7)), partition=0)
    for partition in range(3):
        broker.produce("three", *(_record(number) for number in range(4 + partition)), partition=partition)
    with Client(broker.bootstrap_servers) as client:
        delete_records(client, {Spot("orders.eu", 0): 5, Spot("gone", 0): 7})
    _write_transactions(broker.bootstrap_servers)


def _record(number: int) -> Record:
    headers = (("h", b"1"), ("h", None)) if number % 3 == 0 else ()
    key = None if number % 5 == 0 else b"k%d" % number
    return Record(None if number % 7 == 3 else b"%d" % number, key, headers=headers, timestamp_ms=EARLY_MS + number)


def _write_transactions(servers: str) -> None:
    """Transactions of five records, every second of which is aborted, and one that stays open."""
    settings = {"transactional.id": "payer", "transaction.timeout.ms": 600_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": servers, **settings})
    producer.init_transactions(PATIENCE_S)
    for turn in range(4):
        producer.begin_transaction()
        for number in range(4):
            producer.produce("paid-orders", b"%d" % number, partition=0, timestamp=EARLY_MS + 4 * turn + number)
        producer.flush(PATIENCE_S)
        if turn < 3:
            (producer.abort_transaction if turn % 2 else producer.commit_transaction)(PATIENCE_S)
