"""Random histories of a share partition: states, offsets, acquired records and writes are those of Kafka's own."""

import pytest
import share_partition_twins

from oracle.asked import AskedOracle
from oracle.recorded import Play

HISTORIES = 30
RECORDED = 20


@pytest.mark.java
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_states_and_writes_are_those_of_kafka(kafka: AskedOracle, seed: int) -> None:
    share_partition_twins.play(kafka, seed)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_states_and_writes_are_those_that_kafka_had(recorded: Play, seed: int) -> None:
    share_partition_twins.play(recorded(share_partition_twins.started), seed)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_states_are_those_that_kafka_had_where_a_log_loses_its_beginning(recorded: Play, seed: int) -> None:
    kafka = recorded(share_partition_twins.started)
    share_partition_twins.play(kafka, seed + 1_000, share_partition_twins.OF_A_SHORT_LOG)


@pytest.mark.java
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_dead_letters_and_their_two_writes_are_those_of_kafka(kafka: AskedOracle, seed: int) -> None:
    share_partition_twins.play(kafka, seed + 2_000, share_partition_twins.OF_DEAD_LETTERS)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_dead_letters_and_their_two_writes_are_those_that_kafka_had(recorded: Play, seed: int) -> None:
    kafka = recorded(share_partition_twins.started)
    share_partition_twins.play(kafka, seed + 2_000, share_partition_twins.OF_DEAD_LETTERS)
