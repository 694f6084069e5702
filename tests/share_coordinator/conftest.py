"""A share coordinator on a log in memory, and one JVM with Kafka's for all tests that compare with it, or the recording of one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_share_coordinator import KafkaShareCoordinator, started
from share_coordinator_world import ShareCoordinatorWorld

from oracle.recorded import Recording

RECORDING = Recording(Path(__file__).with_name("kafka_share_coordinator.json.gz"))


@pytest.fixture
def world() -> ShareCoordinatorWorld:
    return ShareCoordinatorWorld()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaShareCoordinator]:
    coordinator = KafkaShareCoordinator(started())
    yield coordinator
    coordinator.close()


@pytest.fixture
def recorded_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaShareCoordinator]:
    is_recording = request.config.getoption("--record-kafka")
    name = request.node.name
    coordinator = KafkaShareCoordinator(RECORDING.record(name, started()) if is_recording else RECORDING.play(name))
    yield coordinator
    coordinator.close()
