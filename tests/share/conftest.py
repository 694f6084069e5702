"""One JVM with Kafka's share partition for all tests that compare with it."""

from collections.abc import Iterator

import pytest

from oracle.asked import AskedOracle


@pytest.fixture(scope="session")
def kafka() -> Iterator[AskedOracle]:
    oracle = AskedOracle("SharePartitionOracle.java", "kafka.server.share.SharePartitionOracle")
    yield oracle
    oracle.close()
