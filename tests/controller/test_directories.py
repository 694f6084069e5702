"""Brokers with several log directories: where replicas are, and what becomes of those in a directory that is gone."""

import pytest
from controller_world import ControllerWorld, directory_of

from kpybroker.machines.metadata.topic import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    directory_is_online,
)
from kpywire import error_codes
from kpywire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

FIRST, SECOND, GONE = directory_of(1), directory_of(1, 1), directory_of(9)


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld().start_brokers(2)
    world.start_brokers(1, log_dirs=[FIRST, SECOND])
    world.created("orders", {0: [1, 2], 1: [2, 1]})
    return world


def assign(
    world: ControllerWorld, directory: bytes, *partitions: int, topic_id: bytes | None = None, epoch: int | None = None
) -> list[int]:
    topic_id = world.image.topics["orders"].id if topic_id is None else topic_id
    numbers = [AssignReplicasToDirsRequestPartitionData(partition_index=number) for number in partitions]
    topics = [AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=numbers)]
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=world.image.brokers[1].epoch if epoch is None else epoch,
        directories=[AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)],
    )
    response = world.send(request)
    if response.error_code:
        return [response.error_code]
    return [each.error_code for each in response.directories[0].topics[0].partitions]


def test_a_broker_with_several_directories_chooses_itself(world: ControllerWorld) -> None:
    assert world.partition("orders").directories == (UNASSIGNED_DIRECTORY, directory_of(2))
    assert assign(world, SECOND, 0, 1) == [0, 0]
    assert world.partition("orders", 0).directory_of(1) == SECOND
    assert world.partition("orders", 1).directory_of(1) == SECOND
    assert world.partition("orders", 1).directory_of(2) == directory_of(2)
    before = len(world.log)
    assert assign(world, SECOND, 0) == [0]
    assert len(world.log) == before


def test_a_replica_in_a_directory_that_is_offline_leads_no_more(world: ControllerWorld) -> None:
    assert assign(world, GONE, 0) == [0]
    partition = world.partition("orders")
    assert (partition.leader, partition.isr, partition.directory_of(1)) == (2, (2,), GONE)


@pytest.mark.parametrize(
    ("partitions", "fields", "codes"),
    [
        ([7], {}, [error_codes.UNKNOWN_TOPIC_OR_PARTITION]),
        ([0], {"topic_id": b"?" * 16}, [error_codes.UNKNOWN_TOPIC_ID]),
        ([0], {"epoch": 0}, [error_codes.STALE_BROKER_EPOCH]),
    ],
)
def test_assignments_of_what_is_not_there(
    world: ControllerWorld, partitions: list[int], fields: dict[str, object], codes: list[int]
) -> None:
    assert assign(world, FIRST, *partitions, **fields) == codes  # type: ignore[arg-type]


def test_an_assignment_of_a_replica_that_is_somebody_elses(world: ControllerWorld) -> None:
    world.created("theirs", {0: [2]})
    assert assign(world, FIRST, 0, topic_id=world.image.topics["theirs"].id) == [error_codes.NOT_LEADER_OR_FOLLOWER]


def test_old_levels_know_no_directories() -> None:
    world = ControllerWorld(level=14)
    epoch = world.register(1, log_dirs=[])
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=[])
    assert world.send(request).error_code == error_codes.UNSUPPORTED_VERSION


def test_which_directories_count_as_online() -> None:
    assert directory_is_online(UNASSIGNED_DIRECTORY, [FIRST])
    assert directory_is_online(MIGRATING_DIRECTORY, [FIRST])
    assert not directory_is_online(LOST_DIRECTORY, [FIRST])
    assert directory_is_online(FIRST, [FIRST])
    assert not directory_is_online(SECOND, [FIRST])
    assert directory_is_online(SECOND, [])


def test_a_broker_that_comes_back_without_a_directory_leads_nothing_in_it() -> None:
    world = ControllerWorld().start_brokers(1, log_dirs=[FIRST, SECOND])
    world.created("orders", {0: [1], 1: [1]})
    assert assign(world, FIRST, 0) == assign(world, SECOND, 1) == [0]
    for incarnation, directories, leaders in ((b"b" * 16, [FIRST], [1, -1]), (b"c" * 16, [FIRST, SECOND], [1, 1])):
        world.pass_time(60_000)
        world.start_brokers(1, log_dirs=directories, incarnation_id=incarnation)
        assert [world.partition("orders", number).leader for number in (0, 1)] == leaders
