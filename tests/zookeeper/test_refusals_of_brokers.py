"""The errors of brokers in ZooKeeper mode have the codes and words of Kafka 3.9, as recorded from it."""

from typing import Any

import pytest

from kpybroker.config import dynamic
from kpybroker.hosts.zookeeper.broker.refusals import not_controller
from kpybroker.hosts.zookeeper.controller.words import reword_creation, reword_growth
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.zookeeper.broker.acl_requests import Creation
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.controlled_shutdown import ControlledShutdownRequest
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from kpywire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

WRONG_CONTROLLER = "This is not the correct controller for this cluster."


def topic(partitions: int = -1, replicas: int = -1, assigned: tuple[int, ...] = ()) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=each, broker_ids=[1]) for each in assigned]
    return CreatableTopic(
        name="t", num_partitions=partitions, replication_factor=replicas, assignments=assignments, configs=[]
    )


def test_topics_are_refused_one_by_one_and_with_an_empty_message() -> None:
    request = CreateTopicsRequest(topics=[topic(1, 1)], timeout_ms=1000)
    response = not_controller(request, 7)
    assert [(each.name, each.error_code, each.error_message) for each in response.topics] == [
        ("t", error_codes.NOT_CONTROLLER, "")
    ]


def test_reassignments_are_refused_as_a_whole_with_a_message() -> None:
    wanted = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
    response = not_controller(AlterPartitionReassignmentsRequest(topics=[wanted]), 0)
    assert (response.error_code, response.error_message) == (error_codes.NOT_CONTROLLER, WRONG_CONTROLLER)
    assert response.responses == []
    assert encode(response, 0)


def test_elections_are_refused_partition_by_partition() -> None:
    wanted = TopicPartitions(topic="t", partitions=[0])
    response = not_controller(ElectLeadersRequest(election_type=0, topic_partitions=[wanted], timeout_ms=1000), 2)
    assert response.error_code == error_codes.NONE
    (result,) = response.replica_election_results[0].partition_result
    assert result.error_code == error_codes.NOT_CONTROLLER


def test_a_broker_that_wants_to_stop_hears_that_the_controller_has_moved() -> None:
    response = not_controller(ControlledShutdownRequest(broker_id=1, broker_epoch=1), 3)
    assert response.error_code == error_codes.STALE_CONTROLLER_EPOCH


@pytest.mark.parametrize("name", ["zookeeper.connect", "inter.broker.protocol.version", "broker.id"])
def test_a_config_that_a_broker_reads_at_its_start_is_not_changed(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        dynamic.check_names_and_values({name: "7"}, of_one_broker=True, in_zookeeper_mode=True)
    assert refused.value.message == f"Cannot update these configs dynamically: Set({name})"
    assert refused.value.code == error_codes.INVALID_REQUEST
    assert dynamic.valid_part({name: "7"}, of_one_broker=True, in_zookeeper_mode=True) == {}


def test_in_kraft_mode_a_config_of_zookeeper_is_an_unknown_name() -> None:
    names = {"zookeeper.connect": "zk:2181"}
    assert dynamic.valid_part(names, of_one_broker=True, in_zookeeper_mode=False) == names


def test_an_acl_with_filter_values_fails_the_whole_request() -> None:
    fields = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*"}
    acls: list[Any] = [AclCreation(**fields, operation=operation, permission_type=3) for operation in (3, 1)]
    with pytest.raises(KafkaError) as refused:
        Creation(CreateAclsRequest(creations=acls))
    assert refused.value.code == error_codes.UNKNOWN_SERVER_ERROR


BOTH = "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time."


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic(0, 0), error_codes.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (topic(1, -2), error_codes.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (
            topic(1, 4),
            error_codes.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 2.",
        ),
        (topic(), error_codes.INVALID_REPLICATION_FACTOR, "Replication factor: 3 larger than available brokers: 2."),
        (topic(1, assigned=(0,)), error_codes.INVALID_REQUEST, BOTH),
    ],
)
def test_impossible_counts_are_refused_in_kafkas_words(wanted: CreatableTopic, code: int, message: str) -> None:
    answer = CreatableTopicResult(name="t", error_code=error_codes.INVALID_REPLICATION_FACTOR, error_message="ours")
    reword_creation(wanted, answer, 3, 2)
    assert (answer.error_code, answer.error_message) == (code, message)


def test_other_errors_of_topics_keep_their_words() -> None:
    answer = CreatableTopicResult(name="t", error_code=error_codes.TOPIC_ALREADY_EXISTS, error_message="ours")
    reword_creation(topic(0, 0), answer, 3, 2)
    assert (answer.error_code, answer.error_message) == (error_codes.TOPIC_ALREADY_EXISTS, "ours")


@pytest.mark.parametrize(
    ("count", "code", "message"),
    [
        (2, error_codes.INVALID_PARTITIONS, "Topic currently has 3 partitions, which is higher than the requested 2."),
        (3, error_codes.INVALID_PARTITIONS, "Topic already has 3 partitions."),
        (4, error_codes.INVALID_PARTITIONS, "ours"),
        (4, error_codes.UNKNOWN_TOPIC_OR_PARTITION, "The topic 't' does not exist."),
    ],
)
def test_a_topic_that_does_not_grow_is_refused_in_kafkas_words(count: int, code: int, message: str) -> None:
    answer = CreatePartitionsTopicResult(name="t", error_code=code, error_message="ours")
    reword_growth(CreatePartitionsTopic(name="t", count=count, assignments=None), answer, 3)
    assert answer.error_message == message
