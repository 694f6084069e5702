"""One JVM with Kafka's coordinator for all tests that compare with it."""

from collections.abc import Iterator

import pytest
from kafka_shard import KafkaShard, started


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaShard]:
    shard = KafkaShard(started())
    yield shard
    shard.close()
