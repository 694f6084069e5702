"""Random histories of a few share partitions: answers and records are those of Kafka's own, byte by byte."""

import pytest
import share_coordinator_twins
from kafka_share_coordinator import KafkaShareCoordinator, started

from oracle.recorded import Play

HISTORIES = 30
RECORDED = 8


@pytest.mark.java
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_answers_and_records_are_those_of_kafka(kafka: KafkaShareCoordinator, seed: int) -> None:
    share_coordinator_twins.play(kafka, seed)


@pytest.mark.java
def test_batches_are_merged_as_by_kafka(kafka: KafkaShareCoordinator) -> None:
    share_coordinator_twins.merge(kafka, 2_000)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_answers_and_records_are_those_that_kafka_gave(recorded: Play, seed: int) -> None:
    share_coordinator_twins.play(KafkaShareCoordinator(recorded(started)), seed)


def test_batches_are_merged_as_kafka_did(recorded: Play) -> None:
    share_coordinator_twins.merge(KafkaShareCoordinator(recorded(started)), 300)
