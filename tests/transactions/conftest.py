"""A coordinator on a log in memory, and one JVM with Kafka's for all tests that compare with it."""

from collections.abc import Iterator

import pytest
from kafka_transactions import KafkaTransactions, started
from transaction_world import TransactionWorld


@pytest.fixture
def world() -> TransactionWorld:
    return TransactionWorld()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaTransactions]:
    coordinator = KafkaTransactions(started())
    yield coordinator
    coordinator.close()
