"""ListPartitionReassignments: what moves is listed; what does not, or is not there, is left out."""

import pytest
from controller_world import ControllerWorld, directory_of

from kpywire import error_codes
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


def test_of_what_is_named_only_what_moves_is_listed(world: ControllerWorld) -> None:
    assert listed(world) == []
    assert listed(world, ("still", [0]), ("nobody", [0]), ("moving", [0, 1, 1, 9])) == [("moving", [MOVING])]
    assert listed(world, ("moving", [0])) == []
