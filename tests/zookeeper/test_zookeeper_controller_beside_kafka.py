"""The same events for our controller and for Apache Kafka 3.9's, which runs beside it: `controller_twins`."""

import os
from collections.abc import Iterator

import pytest
from controller_twins import AskedKafka, played

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture
def kafka() -> Iterator[AskedKafka]:
    asked = AskedKafka()
    yield asked
    asked.close()


@pytest.mark.parametrize("seed", range(int(os.environ.get("HISTORIES", "1"))))
def test_the_same_events_give_the_same_requests_and_the_same_tree(kafka: AskedKafka, seed: int) -> None:
    played(kafka, seed)
