"""Followers whose disks fail, are emptied, lose power, or of which logs move."""

from random import Random

import pytest
from replica_world import World, directory_id

from kpywire.batch import parse_header
from kpywire.record import Record, build_batch


def test_a_follower_whose_disk_was_emptied_is_rebuilt() -> None:
    world = World(2)
    for _ in range(10):
        world.nodes[1].produce(3)
    world.settle()
    world.nodes[2].kill()
    world.nodes[2].disk = type(world.nodes[2].disk)(Random(5))
    world.nodes[2].disk.make_directory("/data")
    world.nodes[2].start()
    world.settle()
    world.assert_equal()


@pytest.mark.parametrize("roll", [False, True])
def test_the_gaps_that_a_replica_has_of_a_compacted_log_are_no_losses_when_it_dies(roll: bool) -> None:
    topic = {"segment.bytes": "1048576", "index.interval.bytes": "0", "cleanup.policy": "compact"}
    world = World(2, topic=topic)
    replica = world.nodes[1].replica()
    for offset, epoch in ((0, 0), (7, 0), (11, 0), (40, 0)):
        size = 600_000 if roll else 10
        batch = build_batch(
            [Record(timestamp=world.scheduler.now_ms(), key=b"k", value=bytes(size))],
            base_offset=offset,
            partition_leader_epoch=epoch,
        )
        replica.led().log.append([parse_header(batch)], batch, world.scheduler.now_ms())
        replica.changed()
        world.settle()
    world.assert_equal()
    before = world.contents(1)
    assert len(world.nodes[2].log().segments) == (4 if roll else 1)
    world.nodes[1].kill()
    world.nodes[2].kill()
    world.nodes[2].start()
    assert world.contents(2) == before
    assert world.nodes[2].log().end.offset == 41
    world.nodes[2].disk.synchronize_all("/data")
    world.nodes[2].kill(power_fails=True)
    world.nodes[2].start()
    assert world.contents(2) == before


def test_high_watermarks_of_followers_survive_a_restart() -> None:
    world = World(2)
    world.nodes[1].produce(4)
    world.settle()
    world.nodes[2].stop()
    world.nodes[1].stop()
    world.nodes[2].start()
    assert world.nodes[2].high_watermark() == 4


def test_a_directory_that_fails_takes_its_partitions_only() -> None:
    world = World(2, partitions=4, directories=2)
    world.settle()
    node = world.nodes[2]
    failed, works = node.log_directories
    assert len(failed.logs) == len(works.logs) == 2
    failed.fail(OSError(5, "simulated"))
    for index in range(4):
        world.nodes[1].produce(1, index)
    world.settle()
    ends = {index: node.replica(index).offline or node.log(index).end.offset for index in range(4)}
    assert sorted(ends.values()) == [1, 1, True, True]
    followed = [key for feed in node.fetchers for key in feed.fetcher.followings]
    assert len(followed) == 2


def test_a_follower_moves_between_its_directories_while_it_is_written_and_cut() -> None:
    world = World(2, directories=2)
    for _ in range(30):
        world.nodes[1].produce(5, value_bytes=2_000)
    world.settle()
    node = world.nodes[2]
    (target,) = [each for each in node.log_directories if each is not node.log().directory]
    node.moves.move(node.replicas, "t", 0, target.path)
    world.cut = {(1, 2), (2, 1)}
    world.lead(2)
    node.produce(50)
    world.lead(1)
    world.nodes[1].produce(1)
    world.cut = set()
    for _ in range(50):
        world.nodes[1].produce(1)
        world.run(20)
    world.settle()
    assert node.log().directory is target
    world.assert_equal()
    assert node.replicas.directories.ids[target] == directory_id(2, node.log_directories.index(target))
