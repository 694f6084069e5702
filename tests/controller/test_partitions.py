"""AlterPartition, ElectLeaders, CreatePartitions and the elections of the controller's own accord."""

from typing import Any

import pytest
from controller_world import ControllerWorld, topic_request

from kpybroker.machines.controller.controller import ElectPreferredLeaders, ElectUncleanLeaders
from kpybroker.machines.metadata.topic import NO_LEADER, RECOVERED, RECOVERING
from kpywire import error_codes
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kpywire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld().start_brokers(1, 2, 3)
    world.register(4)
    world.created("orders", {0: [1, 2, 3]})
    return world


def alter(world: ControllerWorld, isr: list[int], version: int = 3, **fields: Any) -> Any:
    """Broker 1, the leader, changes the ISR of its partition."""
    topic_id = fields.pop("topic_id", world.image.topics["orders"].id)
    broker_id = fields.pop("broker_id", 1)
    broker_epoch = fields.pop("broker_epoch", world.image.brokers[broker_id].epoch)
    partition = world.partition("orders")
    wanted = AlterPartitionRequestPartitionData(
        **{
            "partition_index": 0,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr": isr,
            "new_isr_with_epochs": [
                BrokerState(broker_id=member, broker_epoch=world.image.brokers[member].epoch) for member in isr
            ],
            **fields,
        }
    )
    topics = [AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[wanted])]
    request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=topics)
    response = world.send(request, version)
    return response if response.error_code else response.topics[0].partitions[0]


def test_a_leader_shrinks_and_expands_its_isr(world: ControllerWorld) -> None:
    for epoch, isr in enumerate(([1, 3], [1, 3, 2]), 1):
        answer = alter(world, isr)
        assert (answer.error_code, answer.leader_id, answer.isr) == (0, 1, isr)
        assert (answer.leader_epoch, answer.partition_epoch) == (0, epoch)
        assert world.partition("orders").isr == tuple(isr)


def test_version_2_names_members_without_their_epochs(world: ControllerWorld) -> None:
    assert alter(world, [1, 2], 2, new_isr_with_epochs=[]).isr == [1, 2]


def test_an_unchanged_isr_is_answered_and_not_written(world: ControllerWorld) -> None:
    before = len(world.log)
    assert alter(world, [1, 2, 3]).partition_epoch == 0
    assert len(world.log) == before


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1], {"topic_id": b"?" * 16}, error_codes.UNKNOWN_TOPIC_ID),
        ([1], {"partition_index": 5}, error_codes.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"leader_epoch": 9}, error_codes.NOT_CONTROLLER),
        ([1], {"partition_epoch": 9}, error_codes.NOT_CONTROLLER),
        ([1], {"leader_epoch": -1}, error_codes.FENCED_LEADER_EPOCH),
        ([1, 2], {"broker_id": 2}, error_codes.INVALID_REQUEST),
        ([1], {"partition_epoch": -1}, error_codes.INVALID_UPDATE_VERSION),
        ([1, 4], {}, error_codes.INVALID_REQUEST),
        ([1, 1], {}, error_codes.INVALID_REQUEST),
        ([2, 3], {}, error_codes.INVALID_REQUEST),
        ([], {}, error_codes.INVALID_REQUEST),
        ([1], {"leader_recovery_state": RECOVERING}, error_codes.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": RECOVERING}, error_codes.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 7}, error_codes.INVALID_REQUEST),
        ([1], {"broker_epoch": 99}, error_codes.STALE_BROKER_EPOCH),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_changes_are_checked_in_kafkas_order(
    world: ControllerWorld, isr: list[int], fields: dict[str, Any], code: int
) -> None:
    before = len(world.log)
    assert alter(world, isr, **fields).error_code == code
    assert len(world.log) == before


def test_a_member_must_be_the_incarnation_that_is_registered(world: ControllerWorld) -> None:
    stale = [BrokerState(broker_id=1, broker_epoch=-1), BrokerState(broker_id=2, broker_epoch=0)]
    assert alter(world, [1, 2], new_isr_with_epochs=stale).error_code == error_codes.INELIGIBLE_REPLICA


def test_fenced_and_leaving_members_are_refused() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.register(3)
    world.created("orders", {0: [1, 2, 3]})
    assert alter(world, [1, 2, 3]).error_code == error_codes.INELIGIBLE_REPLICA
    world.created("other", {0: [2, 1]})
    world.heartbeat(1, current_metadata_offset=0)
    world.heartbeat(2, want_shut_down=True)
    assert alter(world, [1, 2]).error_code == error_codes.INELIGIBLE_REPLICA


def test_a_recovered_leader_says_so(world: ControllerWorld) -> None:
    topic_id = world.image.topics["orders"].id
    world.write([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1], leader=1, leader_recovery_state=1)])
    assert alter(world, [1], leader_recovery_state=RECOVERED).leader_recovery_state == RECOVERED
    assert world.partition("orders").leader_recovery_state == RECOVERED


def test_a_reassignment_that_moves_the_leader_ends_with_a_leader_error(world: ControllerWorld) -> None:
    topic_id = world.image.topics["orders"].id
    moving = PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1, 3], removing_replicas=[1])
    world.write([moving])
    assert alter(world, [1, 2, 3]).error_code == error_codes.NEW_LEADER_ELECTED
    partition = world.partition("orders")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (2, 3), 2)
    assert not partition.is_reassigning


def elect(world: ControllerWorld, election_type: int, *partitions: tuple[str, int]) -> list[tuple[int, str | None]]:
    wanted = [TopicPartitions(topic=name, partitions=[number]) for name, number in partitions]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=wanted, timeout_ms=1_000)
    results = world.send(request).replica_election_results
    return [(each.error_code, each.error_message) for result in results for each in result.partition_result]


def set_leader(world: ControllerWorld, leader: int, isr: list[int]) -> None:
    topic_id = world.image.topics["orders"].id
    world.write([PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=leader, isr=isr)])


def test_the_preferred_leader_is_elected_on_demand(world: ControllerWorld) -> None:
    set_leader(world, 2, [2, 1])
    assert elect(world, PREFERRED, ("orders", 0)) == [(0, None)]
    assert world.partition("orders").leader == 1


def test_elections_that_cannot_be(world: ControllerWorld) -> None:
    message = error_codes.message
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(world, PREFERRED, ("orders", 0), ("orders", 9), ("none", 0)) == [
        (error_codes.ELECTION_NOT_NEEDED, message(error_codes.ELECTION_NOT_NEEDED)),
        (unknown, "No such partition as orders-9"),
        (unknown, "No such topic as none"),
    ]
    set_leader(world, 2, [2])
    not_available = error_codes.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(world, PREFERRED, ("orders", 0)) == [(not_available, message(not_available))]
    request = ElectLeadersRequest(election_type=5, topic_partitions=None, timeout_ms=1_000)
    assert world.send(request).error_code == error_codes.INVALID_REQUEST
    request = ElectLeadersRequest(election_type=5, topic_partitions=[], timeout_ms=1_000)
    assert world.send(request).error_code == error_codes.NONE


def test_an_unclean_election_is_for_partitions_without_a_leader(world: ControllerWorld) -> None:
    not_needed = error_codes.ELECTION_NOT_NEEDED
    assert elect(world, UNCLEAN, ("orders", 0)) == [(not_needed, error_codes.message(not_needed))]
    set_leader(world, NO_LEADER, [4])
    assert elect(world, UNCLEAN, ("orders", 0)) == [(0, None)]
    partition = world.partition("orders")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), RECOVERING)


def test_an_election_of_everything_reports_only_what_was_needed(world: ControllerWorld) -> None:
    world.created("other", {0: [1, 2]})
    set_leader(world, 2, [1, 2])
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=1_000)
    results = {result.topic: result.partition_result for result in world.send(request).replica_election_results}
    assert [each.partition_id for each in results["orders"]] == [0]
    assert results["other"] == []


def test_the_controller_elects_preferred_leaders_of_its_own_accord(world: ControllerWorld) -> None:
    set_leader(world, 2, [1, 2])
    world.decide(ElectPreferredLeaders())
    assert world.partition("orders").leader == 1


def test_the_controller_elects_uncleanly_only_where_the_topic_allows_it(world: ControllerWorld) -> None:
    set_leader(world, NO_LEADER, [4])
    world.decide(ElectUncleanLeaders())
    assert world.partition("orders").leader == NO_LEADER
    careless = world.created("careless", {0: [1, 2]}, unclean_leader_election_enable="true")
    world.write([PartitionChangeRecord(topic_id=careless, partition_id=0, leader=NO_LEADER, isr=[4])])
    world.decide(ElectUncleanLeaders())
    assert world.partition("careless").leader == 1


def add(world: ControllerWorld, count: int, assignments: list[list[int]] | None = None, name: str = "orders") -> Any:
    wanted = None
    if assignments is not None:
        wanted = [CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignments]
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=wanted)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1_000, validate_only=False)
    (result,) = world.send(request).results
    return result.error_code, result.error_message


def test_partitions_are_added_behind_those_that_are_there(world: ControllerWorld) -> None:
    assert add(world, 3) == (0, None)
    assert list(world.image.topics["orders"].partitions) == [0, 1, 2]
    assert len(world.partition("orders", 2).replicas) == 3
    assert world.partition("orders", 2).leader != 4
    assert add(world, 4, [[2, 1, 3]]) == (0, None)
    assert world.partition("orders", 3).replicas == (2, 1, 3)


@pytest.mark.parametrize(
    ("count", "assignments", "code", "message"),
    [
        (1, None, error_codes.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
        (
            0,
            None,
            error_codes.INVALID_PARTITIONS,
            "The topic orders currently has 1 partition(s); 0 would not be an increase.",
        ),
        (
            3,
            [[1, 2, 3]],
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            2,
            [[1, 2]],
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            (
                "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent "
                "with previous partitions, which have 3 replica(s)."
            ),
        ),
        (
            10_002,
            None,
            error_codes.POLICY_VIOLATION,
            "Excessively large number of additional partitions per request.",
        ),
        (
            2**31 - 1,
            None,
            error_codes.POLICY_VIOLATION,
            "Excessively large number of additional partitions per request.",
        ),
    ],
)
def test_refused_increases(
    world: ControllerWorld, count: int, assignments: list[list[int]] | None, code: int, message: str | None
) -> None:
    before = len(world.log)
    assert add(world, count, assignments) == (code, message)
    assert len(world.log) == before


def test_too_many_partitions_for_all_topics_together_are_refused(world: ControllerWorld) -> None:
    world.create(topic_request("other", 1), topic_request("smaller", 3))
    counts = {"orders": 6_001, "other": 4_002, "smaller": 2, "none": 2**31 - 1}
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1_000, validate_only=True)
    assert {result.error_code for result in world.send(request).results} == {error_codes.POLICY_VIOLATION}
    topics[0].count = 6_000
    assert [result.error_code for result in world.send(request).results][:2] == [error_codes.NONE, error_codes.NONE]


def test_partitions_of_an_unknown_topic_and_of_one_named_twice(world: ControllerWorld) -> None:
    assert add(world, 2, name="none") == (error_codes.UNKNOWN_TOPIC_OR_PARTITION, None)
    topics = [CreatePartitionsTopic(name="orders", count=count, assignments=None) for count in (2, 3)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1_000, validate_only=False)
    (result,) = world.send(request).results
    assert (result.error_code, result.error_message) == (error_codes.INVALID_REQUEST, "Duplicate topic name.")


def test_too_many_new_partitions_fail_the_request_as_a_whole(world: ControllerWorld) -> None:
    world.created("more", {0: [1, 2, 3]})
    world.created("small", {0: [1, 2, 3]})
    counts = {"orders": 5_002, "more": 5_001, "small": 2, "none": 20_000}

    def codes() -> list[int]:
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=1_000, validate_only=True)
        return [each.error_code for each in world.send(request).results]

    assert codes() == [error_codes.POLICY_VIOLATION] * 4
    counts["small"] = -5
    counts["more"] = 5_000
    assert codes() == [0, 0, error_codes.INVALID_PARTITIONS, error_codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_validate_only_adds_nothing(world: ControllerWorld) -> None:
    topics = [CreatePartitionsTopic(name="orders", count=2, assignments=None)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1_000, validate_only=True)
    assert world.send(request).results[0].error_code == 0
    assert len(world.image.topics["orders"].partitions) == 1
