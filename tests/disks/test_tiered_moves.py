"""A partition whose log begins in a store moves between directories: only what is on the disk is copied, and the log's
start, its epochs and its producers move too, whenever the disk dies."""

from functools import partial

import pytest
from crashing import crashes
from moving_world import TOPIC, TOPIC_ID, TWO, Life, MovingWorld

from kpystorage import names
from kpystorage.log import Log
from kpystorage.sim_disk import SimDisk
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord

OPERATIONS = 60


class TieredMovingWorld(MovingWorld):
    """A world in which segments go from the disk because a store has them."""

    def __init__(self, seed: int, operations: int) -> None:
        super().__init__(seed, operations)
        tiered = ConfigRecord(resource_type=2, resource_name=TOPIC, name="remote.storage.enable", value="true")
        self.controller.tell(None, tiered)
        self.local_end = 0
        """The offset up to which a store has the records, and the disk perhaps not."""
        self.may_go = 0
        """The offset up to which segments were to go from the disk."""
        self.gone = 0

    def life_on(self, disk: SimDisk) -> Life:
        return Life(disk, self.controller, is_tiered=True)

    def _one(self, life: Life) -> None:
        choice, log = self.rng.random(), life.log
        if choice < 0.2:
            with log.directory.failing():
                log.roll(life.scheduler.now_ms())
        elif choice < 0.35:
            end = log.end.offset
            log.flush()
            self.model.promised_end = max(self.model.promised_end, end)
            wanted = self.rng.randint(0, len(log.segments) - 1)
            self.may_go = max(self.may_go, log.base_offsets[wanted])
            gone = log.delete_oldest(wanted, life.scheduler.now_ms())
            self.gone += gone
            self.local_end = log.base_offsets[0] if gone else self.local_end
        super()._one(life)

    def _check_log(self, log: Log, kept_end: int) -> None:
        self.model.log_start = max(self.model.log_start, self.may_go)
        super()._check_log(log, kept_end)
        assert log.end.offset >= self.local_end
        if log.log_start_offset < log.base_offsets[0]:
            earliest = log.epochs.earliest
            assert earliest is not None
            assert earliest[1] <= log.log_start_offset


def tiered_enough(world: TieredMovingWorld) -> bool:
    return world.moves > 2 and world.gone > 1


@pytest.mark.parametrize("seed", [1, 4])
def test_a_power_failure_at_any_call_of_a_move_leaves_one_log_that_knows_its_start(seed: int) -> None:
    for world in crashes(partial(TieredMovingWorld, seed, OPERATIONS), tiered_enough, step=3):
        world.check(world.disk.after_power_failure(), world.model.promised_end)


@pytest.mark.parametrize("seed", [3])
def test_the_death_of_the_process_at_any_call_of_a_move_leaves_one_log_that_knows_its_start(seed: int) -> None:
    for world in crashes(partial(TieredMovingWorld, seed, OPERATIONS), tiered_enough, step=3):
        world.check(world.disk.after_process_death(), world.model.acknowledged_end)


def filled() -> TieredMovingWorld:
    """A world whose log has segments of an epoch each, of which only a store has the first two."""
    world = TieredMovingWorld(6, 0)
    world.run()
    life = world.life
    while life.log.end.offset < 60:
        world.append(life)
        if life.log.active.size > 2000:
            life.log.roll(life.scheduler.now_ms())
            change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1)
            world.controller.tell(life.replicas, change)
    world.append(life)
    life.log.flush()
    assert life.log.delete_oldest(2, 0) == 2
    return world


def test_start_epochs_producers_and_files_move() -> None:
    world = filled()
    life, source = world.life, world.life.log
    before = (source.log_start_offset, source.base_offsets, source.epochs.entries())
    producers = sorted(source.producers.snapshot())
    assert before[0] < before[1][0]
    life.moves.move(life.replicas, TOPIC, 0, TWO)
    life.settle()
    log = life.log
    assert log.directory.path == TWO
    assert (log.log_start_offset, log.base_offsets, log.epochs.entries()) == before
    assert sorted(log.producers.snapshot()) == producers
    assert f"t 0 {before[0]}".encode() in world.disk.read(f"{TWO}/{names.LOG_STARTS}")


def test_segments_that_go_from_the_disk_while_a_log_moves_go_from_the_copy() -> None:
    world = filled()
    life, source = world.life, world.life.log
    life.moves.move(life.replicas, TOPIC, 0, TWO)
    life.scheduler.advance(0)
    source.delete_oldest(1, life.scheduler.now_ms())
    first = source.base_offsets[0]
    life.settle()
    assert life.log.directory.path == TWO
    assert (life.log.log_start_offset, life.log.base_offsets[0]) == (0, first)


def test_a_log_that_begins_elsewhere_while_it_moves_is_copied_again() -> None:
    world = filled()
    life, source = world.life, world.life.log
    epochs = source.epochs.entries()
    life.moves.move(life.replicas, TOPIC, 0, TWO)
    life.scheduler.advance(1)
    source.begin_in_middle(1000, 30, [*epochs, (90, 900)], None, life.scheduler.now_ms())
    leader = life.replicas.find(TOPIC, 0).led()
    leader.high_watermark = source.end
    life.moves.source_was_cut(life.replicas.find(TOPIC, 0))
    life.settle()
    log = life.log
    assert log.directory.path == TWO
    assert (log.log_start_offset, log.base_offsets, log.end.offset) == (30, [1000], 1000)
    assert log.epochs.entries()[-1] == (90, 900)
    assert life.directories.failed == []
