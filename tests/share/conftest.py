"""One JVM with Kafka's share partition for all tests that compare with it, and the recording of one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.asked import AskedOracle
from oracle.recorded import Asked, Recording

RECORDING = Recording(Path(__file__).with_name("kafka_share_partition.json.gz"))


def started() -> AskedOracle:
    return AskedOracle("SharePartitionOracle.java", "kafka.server.share.SharePartitionOracle")


@pytest.fixture(scope="session")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


@pytest.fixture
def recorded_kafka(request: pytest.FixtureRequest) -> Iterator[Asked]:
    is_recording = request.config.getoption("--record-kafka")
    asked = RECORDING.record(request.node.name, started()) if is_recording else RECORDING.play(request.node.name)
    yield asked
    asked.close()
