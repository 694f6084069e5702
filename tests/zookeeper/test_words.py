"""The words of Kafka 3.9 for topics that cannot be created or grow, and the decisions whose words stay."""

from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.hosts.zookeeper.controller.words import reword_creation, reword_growth
from kpywire import error_codes
from kpywire.messages.create_partitions import CreatePartitionsTopic
from kpywire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic

PARTITIONS, FACTOR = error_codes.INVALID_PARTITIONS, error_codes.INVALID_REPLICATION_FACTOR
INVALID = error_codes.INVALID_REQUEST
BOTH = "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time."


def reworded(partitions: int, factor: int, code: int, *, assigned: bool = False, default: int = 1) -> tuple[int, Any]:
    assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])] if assigned else []
    topic = CreatableTopic(
        name="t", num_partitions=partitions, replication_factor=factor, assignments=assignments, configs=[]
    )
    answer = SimpleNamespace(error_code=code, error_message="as KRaft says")
    reword_creation(topic, answer, default, 3)
    return answer.error_code, answer.error_message


KEPT = "as KRaft says"


@pytest.mark.parametrize(
    ("partitions", "factor", "assigned", "expected"),
    [
        (0, 1, False, (PARTITIONS, "Number of partitions must be larger than 0.")),
        (-2, 1, False, (PARTITIONS, "Number of partitions must be larger than 0.")),
        (0, 0, False, (PARTITIONS, "Number of partitions must be larger than 0.")),
        (1, 0, False, (FACTOR, "Replication factor must be larger than 0.")),
        (-1, -2, False, (FACTOR, "Replication factor must be larger than 0.")),
        (1, 4, False, (FACTOR, "Replication factor: 4 larger than available brokers: 3.")),
        (1, 3, False, (INVALID, KEPT)),
        (1, 1, False, (INVALID, KEPT)),
        (-1, -1, False, (INVALID, KEPT)),
        (-1, -1, True, (INVALID, KEPT)),
        (1, -1, True, (INVALID, BOTH)),
        (-1, 1, True, (INVALID, BOTH)),
    ],
)
def test_impossible_counts_have_their_own_words(
    partitions: int, factor: int, assigned: bool, expected: tuple[int, str]
) -> None:
    assert reworded(partitions, factor, INVALID, assigned=assigned) == expected
    for code in (PARTITIONS, FACTOR):
        assert reworded(partitions, factor, code, assigned=assigned)[1] == expected[1]
    exists = error_codes.TOPIC_ALREADY_EXISTS
    assert reworded(partitions, factor, exists, assigned=assigned) == (exists, KEPT)


def test_the_default_stands_for_a_factor_that_is_not_given() -> None:
    assert reworded(1, -1, FACTOR, default=4)[1] == "Replication factor: 4 larger than available brokers: 3."
    assert reworded(1, -1, FACTOR, default=3)[1] == KEPT
    assert reworded(1, -1, FACTOR, default=0)[1] == "Replication factor must be larger than 0."


@pytest.mark.parametrize(
    ("code", "count", "words"),
    [
        (error_codes.UNKNOWN_TOPIC_OR_PARTITION, 3, "The topic 't' does not exist."),
        (PARTITIONS, 1, "Topic currently has 2 partitions, which is higher than the requested 1."),
        (PARTITIONS, 2, "Topic already has 2 partitions."),
        (PARTITIONS, 3, KEPT),
        (INVALID, 1, KEPT),
        (INVALID, 2, KEPT),
    ],
)
def test_a_topic_that_does_not_grow_has_its_own_words(code: int, count: int, words: str) -> None:
    answer: Any = SimpleNamespace(error_code=code, error_message=KEPT)
    reword_growth(CreatePartitionsTopic(name="t", count=count, assignments=None), answer, 2)
    assert (answer.error_code, answer.error_message) == (code, words)
