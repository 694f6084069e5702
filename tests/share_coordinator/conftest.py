"""A share coordinator on a log in memory, and one JVM with Kafka's for all tests that compare with it."""

from collections.abc import Iterator

import pytest
from kafka_share_coordinator import KafkaShareCoordinator, started
from share_coordinator_world import ShareCoordinatorWorld


@pytest.fixture
def world() -> ShareCoordinatorWorld:
    return ShareCoordinatorWorld()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaShareCoordinator]:
    coordinator = KafkaShareCoordinator(started())
    yield coordinator
    coordinator.close()
