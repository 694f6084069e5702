"""The logs of deleted topics go out of use some at a time, and never in the place of a new topic's."""

from typing import Any

import pytest
from hosting_world import World

from kpybroker.machines.errors import KafkaError
from kpybroker.runtime.io.scheduler import Pieces

PARTITIONS = 5
OLD, NEW, NEWER = (bytes([number]) * 16 for number in (1, 2, 3))


@pytest.fixture
def world() -> World:
    """A world with a step that takes longer than a piece should, so a turn does one."""
    world = World()
    now_ns = iter(range(0, 1 << 60, 1_000_000))
    world.scheduler.in_pieces = Pieces(world.scheduler.call_soon, lambda: next(now_ns)).begin
    return world


def logs(world: World) -> dict[int, bytes | None]:
    return {index: found.topic_id for (_, index), found in sorted(world.directory.logs.items())}


def create(world: World, topic_id: bytes) -> None:
    world.create(PARTITIONS, "topic", topic_id)


def waiting(replica: Any) -> list[bool]:
    """Whether it was gone, each time that it told somebody that it changed."""
    seen: list[bool] = []
    waiter = type("Waiter", (), {"check": lambda _self: seen.append(replica.gone)})()
    replica.commit_waits[waiter] = None
    return seen


def test_a_deleted_topic_is_gone_at_once_and_its_logs_soon(world: World) -> None:
    create(world, OLD)
    world.scheduler.run()
    assert logs(world) == dict.fromkeys(range(PARTITIONS), OLD)
    notified = [waiting(world.replicas.find("topic", index)) for index in range(PARTITIONS)]
    world.delete(OLD)
    with pytest.raises(KafkaError):
        world.replicas.find("topic", 0)
    assert len(logs(world)) == PARTITIONS - 1, "one piece of the work"
    world.scheduler.run()
    assert logs(world) == {}
    assert notified == [[True]] * PARTITIONS


def test_a_new_topic_of_the_name_has_logs_of_its_own_whoever_comes_first(world: World) -> None:
    create(world, OLD)
    world.scheduler.run()
    world.delete(OLD)
    create(world, NEW)
    assert world.replicas.find("topic", PARTITIONS - 1).led().log.topic_id == NEW, "asked for while the old one leaves"
    world.scheduler.run()
    assert logs(world) == dict.fromkeys(range(PARTITIONS), NEW)
    world.delete(NEW)
    create(world, NEWER)
    world.delete(NEWER)
    create(world, OLD)
    world.scheduler.run()
    assert logs(world) == dict.fromkeys(range(PARTITIONS), OLD)
    assert not world.directory.strays


def test_a_clean_stop_leaves_no_log_of_a_deleted_topic(world: World) -> None:
    create(world, OLD)
    world.scheduler.run()
    world.delete(OLD)
    world.replicas.finish_dropping()
    assert logs(world) == {}
    world.scheduler.run()
