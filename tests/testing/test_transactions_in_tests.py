"""Transactions in somebody's test: real clients, timeouts without waiting, faults where transactions hurt."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from kpybroker.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as started:
        started.create_topic("orders")
        yield started


def producer_of(broker: Broker, **settings: object) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "shop",
            "log_level": 0,
            **settings,
        }
    )
    made.init_transactions(30)
    return made


def values(broker: Broker, *, committed: bool) -> list[object]:
    isolation = "read_committed" if committed else "read_uncommitted"
    return [record.value for record in broker.records("orders", isolation=isolation)]


def test_committed_records_are_distinguished_from_others(broker: Broker) -> None:
    producer = producer_of(broker)
    for value, end in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.flush(30)
        end(30)
    producer.begin_transaction()
    producer.produce("orders", "open")
    producer.flush(30)
    assert values(broker, committed=False) == [b"kept", b"dropped", b"open"]
    assert values(broker, committed=True) == [b"kept"]
    producer.abort_transaction(30)


def test_a_transaction_times_out_without_waiting(broker: Broker) -> None:
    producer = producer_of(broker, **{"transaction.timeout.ms": 600_000})
    producer.begin_transaction()
    producer.produce("orders", "late")
    producer.flush(30)
    broker.clock.advance(minutes=11)
    broker.produce("orders", "after")
    assert values(broker, committed=True) == [b"after"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


@pytest.mark.parametrize("api", ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "EndTxn"])
def test_faults_are_retried_by_clients(broker: Broker, api: str) -> None:
    fault = broker.faults.fail(api, error="COORDINATOR_LOAD_IN_PROGRESS", times=1)
    producer = producer_of(broker)
    producer.begin_transaction()
    producer.produce("orders", "kept")
    producer.commit_transaction(30)
    assert fault.hits == 1
    assert values(broker, committed=True) == [b"kept"]


def test_a_transactional_id_unused_for_a_week_expires(broker: Broker) -> None:
    idle = producer_of(broker)
    idle.begin_transaction()
    idle.produce("orders", "before")
    idle.commit_transaction(30)
    broker.clock.advance(days=8)
    idle.begin_transaction()
    idle.produce("orders", "unknown")
    with pytest.raises(KafkaException):
        idle.commit_transaction(30)
    again = producer_of(broker)
    again.begin_transaction()
    again.produce("orders", "after")
    again.commit_transaction(30)
    assert values(broker, committed=True)[-1:] == [b"after"]
