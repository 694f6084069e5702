"""One JVM with Kafka's share partition for all tests that compare with it."""

from collections.abc import Iterator

import pytest
import share_partition_twins

from oracle.asked import AskedOracle


@pytest.fixture(scope="session")
def kafka() -> Iterator[AskedOracle]:
    oracle = share_partition_twins.started()
    yield oracle
    oracle.close()
