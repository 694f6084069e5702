"""Logs of new partitions: their files are made beside the loop, and become logs whole, at once, or not at all."""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hosting_world import NODE, OTHER_NODE, World

from kpybroker.hosts.replicas.new_logs import AT_ONCE
from kpybroker.hosts.replicas.replica import Replica
from kpystorage import names
from kpystorage.disk import DescriptorsExhausted
from kpystorage.memory_disk import MemoryDisk
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.topic_record import TopicRecord
from tests.replication.alone import NoFetchers, alone

PARTITIONS = 40
ONE, TWO = (bytes([number]) * 16 for number in (1, 2))
FILES = sorted([names.PARTITION_METADATA, *(names.segment_file(0, each) for each in (".log", ".index", ".timeindex"))])


class Thread:
    """The work beside the loop, done when the test says so."""

    def __init__(self, world: World) -> None:
        self.works: list[tuple[Callable[[], Any], Callable[..., object]]] = []
        world.scheduler.submit_blocking = lambda work, done: self.works.append((work, done))  # type: ignore[method-assign]

    def work(self) -> bool:
        if not self.works:
            return False
        work, done = self.works.pop(0)
        done(work(), None)
        return True


class Scarce(MemoryDisk):
    """A disk that has no descriptor left for one name."""

    def __init__(self) -> None:
        super().__init__()
        self.without = ""

    def write(self, path: str, data: Any, *, synchronize: bool) -> None:
        if self.without and self.without in path:
            raise DescriptorsExhausted(24, "Too many open files", path)
        super().write(path, data, synchronize=synchronize)


def held(world: World) -> list[str]:
    """The directories of logs, whatever they are called."""
    listed = world.disk.list_directory("/data")
    return sorted(name for name in listed if world.disk.status(f"/data/{name}").is_directory)  # type: ignore[union-attr]


def create(world: World, topic_id: bytes = ONE, partitions: int = PARTITIONS) -> None:
    world.create(partitions, "topic", topic_id)
    world.scheduler.run()


def finish(world: World, thread: Thread) -> None:
    world.scheduler.advance(2)
    while thread.work():
        world.scheduler.advance(2)


def test_no_file_of_a_new_log_is_made_on_the_loop_and_none_is_left_over() -> None:
    world = World()
    thread = Thread(world)
    create(world)
    assert held(world) == []
    finish(world, thread)
    assert held(world) == sorted(f"topic-{index}" for index in range(PARTITIONS))
    for index in range(PARTITIONS):
        assert sorted(world.disk.list_directory(f"/data/topic-{index}")) == FILES
        assert world.directory.read_topic_id(world.directory.logs["topic", index]) == ONE
    assert world.directory.in_the_making == 0


def test_a_log_needed_early_is_made_at_once_and_the_threads_log_is_dropped() -> None:
    world = World()
    thread = Thread(world)
    create(world, partitions=3)
    work, done = thread.works.pop()
    before = world.replicas.find("topic", 0).led().log
    made = work()
    while_made = world.replicas.find("topic", 1).led().log
    done(made, None)
    finish(world, thread)
    assert held(world) == ["topic-0", "topic-1", "topic-2"]
    assert [world.replicas.find("topic", index).led().log for index in (0, 1)] == [before, while_made]
    assert world.directory.in_the_making == 0


class Following(NoFetchers):
    """Stands for what fetches from other brokers."""

    def __init__(self) -> None:
        self.followed: list[str] = []

    def follow(self, replica: Replica) -> None:
        self.followed.append(str(replica))

    def forget(self, replica: Replica) -> None:
        self.followed.remove(str(replica))


def test_a_new_replica_is_fetched_even_if_somebody_looked_at_its_log_while_that_was_made() -> None:
    fetchers = Following()
    world = World(neighbours=alone()._replace(fetchers=fetchers))
    thread = Thread(world)
    partition = PartitionRecord(
        topic_id=ONE, partition_id=0, replicas=[OTHER_NODE, NODE], isr=[OTHER_NODE], leader=OTHER_NODE
    )
    world.tell(TopicRecord(name="topic", topic_id=ONE), partition)
    world.scheduler.run()
    work, done = thread.works.pop()
    made = work()
    world.replicas.find("topic", 0).held()
    done(made, None)
    world.scheduler.run()
    assert fetchers.followed == ["topic-0"]


def test_a_log_deleted_while_it_is_made_leaves_nothing() -> None:
    world = World()
    thread = Thread(world)
    create(world, partitions=3)
    work, done = thread.works.pop()
    world.delete(ONE)
    create(world, TWO, partitions=2)
    done(work(), None)
    world.scheduler.run()
    finish(world, thread)
    assert held(world) == ["topic-0", "topic-1"]
    assert {log.topic_id for log in world.directory.logs.values()} == {TWO}


def test_logs_deleted_before_their_turn_are_skipped_in_steps() -> None:
    """Thousands of partitions that were deleted while others were made do not keep the loop."""
    world = World()
    create(world, partitions=1)
    waiting = world.replicas._new_logs._waiting
    thread = Thread(world)
    world.create(PARTITIONS, "other", TWO)
    world.delete(TWO)
    seen = [len(waiting)]
    call_soon = world.scheduler.call_soon

    def noted(callback: Callable[..., object], *arguments: Any) -> None:
        seen.append(len(waiting))
        call_soon(callback, *arguments)

    world.scheduler.call_soon = noted  # type: ignore[method-assign]
    world.scheduler.run()
    finish(world, thread)
    assert not waiting
    assert max(before - after for before, after in pairwise(seen)) <= AT_ONCE
    assert held(world) == ["topic-0"]


def test_after_a_death_in_the_middle_of_it_nothing_half_made_counts() -> None:
    world = World()
    thread = Thread(world)
    create(world, partitions=3)
    thread.works.pop()[0]()
    assert all(name.endswith(names.DELETE_DIRECTORY) for name in held(world))
    world.directory.abandon()
    again = World(world.disk)
    assert again.directory.logs == {}
    assert len(again.directory.leftovers) == 3
    again.directory._rng = Random(2)
    again.create(3, "topic", ONE)
    again.scheduler.run()
    again.scheduler.advance(100)
    assert held(again) == ["topic-0", "topic-1", "topic-2"]


def test_a_log_that_lacks_a_descriptor_is_made_when_it_is_asked_for() -> None:
    disk = Scarce()
    world = World(disk)
    disk.without = "topic-1"
    create(world, partitions=3)
    world.scheduler.advance(100)
    assert sorted(index for _, index in world.directory.logs) == [0, 2]
    assert world.directory.failure is None
    disk.without = ""
    assert world.replicas.find("topic", 1).led().log.log_end_offset == 0
    assert held(world) == ["topic-0", "topic-1", "topic-2"]


@pytest.mark.parametrize("broken", ["_choose", "_take_up"])
def test_a_failure_of_one_log_does_not_affect_the_others(broken: str) -> None:
    world = World()
    new_logs = world.replicas._new_logs
    sound = getattr(new_logs, broken)

    def breaks(replica: Replica) -> Any:
        if replica.index == 1:
            raise RuntimeError("something nobody thought of")
        return sound(replica)

    setattr(new_logs, broken, breaks)
    create(world, partitions=AT_ONCE + 2)
    world.scheduler.advance(100)
    assert {index for _, index in world.directory.logs} == {*range(AT_ONCE + 2)} - {1}
    assert not new_logs._is_busy
    assert world.directory.in_the_making == 0
    assert not [name for name in held(world) if name.endswith(names.DELETE_DIRECTORY)]


def test_a_node_that_stops_makes_no_more() -> None:
    world = World()
    thread = Thread(world)
    create(world)
    world.replicas.stop()
    finish(world, thread)
    assert 0 < len(held(world)) < PARTITIONS
    assert not world.replicas._new_logs._is_busy
