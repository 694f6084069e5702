"""Partitions that move between brokers: begun, called off, and listed; what does not move is left out."""

import pytest
from controller_world import ControllerWorld, directory_of

from kpybroker.machines.metadata.topic import RECOVERING
from kpywire import error_codes
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld().start_brokers(1, 2, 3)
    world.created("still", {0: [1, 2]})
    topic_id = world.created("moving", {0: [1, 2], 1: [2, 3]})
    move = PartitionChangeRecord(
        topic_id=topic_id,
        partition_id=1,
        replicas=[2, 3, 1],
        adding_replicas=[1],
        directories=[directory_of(broker_id) for broker_id in (2, 3, 1)],
    )
    world.write([move])
    return world


def listed(
    world: ControllerWorld, *topics: tuple[str, list[int]], every: bool = False
) -> list[tuple[str, list[OngoingPartitionReassignment]]]:
    wanted = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in topics]
    response = world.send(ListPartitionReassignmentsRequest(topics=None if every else wanted))
    assert response.error_code == error_codes.NONE
    return [(topic.name, topic.partitions) for topic in response.topics]


MOVING = OngoingPartitionReassignment(partition_index=1, replicas=[2, 3, 1], adding_replicas=[1], removing_replicas=[])


def test_all_that_moves_is_listed(world: ControllerWorld) -> None:
    assert listed(world, every=True) == [("moving", [MOVING])]


def test_only_moving_partitions_are_listed(world: ControllerWorld) -> None:
    assert listed(world) == []
    assert listed(world, ("still", [0]), ("nobody", [0]), ("moving", [0, 1, 1, 9])) == [("moving", [MOVING])]
    assert listed(world, ("moving", [0])) == []


# AlterPartitionReassignments


def reassign(world: ControllerWorld, replicas: list[int] | None, *, factor_may_change: bool = True) -> int:
    """The error code for partition 0 of "orders"."""
    wanted = ReassignableTopic(name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
    request = AlterPartitionReassignmentsRequest(topics=[wanted], allow_replication_factor_change=factor_may_change)
    code: int = world.send(request).responses[0].partitions[0].error_code
    return code


def four_brokers() -> ControllerWorld:
    world = ControllerWorld().start_brokers(1, 2, 3, 4)
    world.created("orders", {0: [1, 2]})
    return world


def test_a_partition_moves_when_those_that_join_are_in_sync() -> None:
    world = four_brokers()
    assert reassign(world, [4, 3]) == error_codes.NONE
    partition = world.partition("orders")
    assert partition.replicas == (4, 3, 1, 2)
    assert (partition.adding_replicas, partition.removing_replicas) == ((3, 4), (1, 2))
    assert reassign(world, [4, 3], factor_may_change=False) == error_codes.NONE
    assert reassign(world, [4], factor_may_change=False) == error_codes.INVALID_REPLICATION_FACTOR


def test_the_factor_that_may_not_change_is_the_one_that_a_move_is_about_to_give() -> None:
    world = four_brokers()
    assert reassign(world, [1, 2, 3]) == error_codes.NONE
    assert reassign(world, [1, 4], factor_may_change=False) == error_codes.INVALID_REPLICATION_FACTOR
    assert reassign(world, [1, 2, 4], factor_may_change=False) == error_codes.NONE


def test_a_move_that_is_called_off_leaves_the_replicas_that_were() -> None:
    world = four_brokers()
    assert reassign(world, None) == error_codes.NO_REASSIGNMENT_IN_PROGRESS
    assert reassign(world, [1, 3]) == error_codes.NONE
    assert reassign(world, None) == error_codes.NONE
    partition = world.partition("orders")
    assert (partition.replicas, partition.isr, partition.is_reassigning) == ((1, 2), (1, 2), False)


def test_a_move_to_brokers_that_are_down_waits_is_widened_and_called_off() -> None:
    world = four_brokers()
    world.heartbeat(3, want_fence=True)
    assert reassign(world, [2, 3]) == error_codes.NONE
    partition = world.partition("orders")
    assert (partition.replicas, partition.isr) == ((2, 3, 1), (1, 2))
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (1,))
    assert reassign(world, [2, 3, 4]) == error_codes.NONE
    partition = world.partition("orders")
    assert (partition.replicas, partition.isr) == ((2, 3, 4, 1), (1, 2))
    assert reassign(world, None) == error_codes.NONE
    assert set(world.partition("orders").replicas) == {1, 2, 3}


def test_a_changed_move_does_not_wait_for_a_replica_that_it_no_longer_adds() -> None:
    world = four_brokers()
    assert reassign(world, [1, 3]) == error_codes.NONE
    assert reassign(world, [2, 1]) == error_codes.NONE
    partition = world.partition("orders")
    assert (partition.replicas, partition.isr, partition.is_reassigning) == ((2, 1), (1, 2), False)


@pytest.mark.parametrize("unclean", [True, False])
def test_a_cancelled_move_elects_a_live_replica(unclean: bool) -> None:
    """Only who was to join is in sync. Where records may be lost, they are lost to who is there."""
    world = ControllerWorld().start_brokers(1, 2, 3, 4)
    topic_id = world.created("orders", {0: [1, 2]}, unclean_leader_election_enable=str(unclean).lower())
    assert reassign(world, [1, 2, 3, 4]) == error_codes.NONE
    world.write([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[3], leader=3)])
    world.heartbeat(1, want_fence=True)
    moving = world.partition("orders")
    assert (moving.isr, moving.leader, moving.is_reassigning) == ((3,), 3, True)
    code = reassign(world, None)
    left = world.partition("orders")
    if not unclean:
        assert code == error_codes.INVALID_REPLICA_ASSIGNMENT
        assert left == moving
    else:
        assert code == error_codes.NONE
        assert (left.replicas, left.isr, left.leader, left.leader_recovery_state) == ((1, 2), (2,), 2, RECOVERING)


def test_a_reassignment_to_where_the_partition_is_writes_nothing() -> None:
    world = four_brokers()
    before = len(world.log)
    assert reassign(world, [1, 2]) == error_codes.NONE
    assert len(world.log) == before
