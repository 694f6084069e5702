"""Partitions that move between directories, are flushed, cut and deleted while every sync of a thread takes long."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from moving_world import ONE, TOPIC, TOPIC_ID, TWO, Life, MovingWorld, deleted

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.replicas.upkeep import Upkeep
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.sim_disk import SimDisk
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from tests.storage.overlapping import Threads, Worker

OPERATIONS = 100


class SlowScheduler(ManualScheduler):
    """A scheduler whose threads take a while for each sync."""

    def __init__(self, disk: SimDisk, rng: Random) -> None:
        super().__init__()
        self._rng = rng
        self._threads = Threads(disk, self._waits)

    def submit_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        def over(worker: Worker) -> None:
            self.call_soon(done, worker.result, worker.error)

        self.call_later(self._rng.choice([0, 1, 20]), self._threads.begin, work, over)

    def _waits(self, worker: Worker) -> None:
        self.call_later(self._rng.choice([0, 1, 20, 500]), self._threads.go_on, worker)


class SlowWorld(MovingWorld):
    """A world in which logs are flushed in slow threads, led by one leader after the other, and cut."""

    def new_life(self) -> Life:
        life = Life(self.disk, self.controller, scheduler=SlowScheduler(self.disk, self.rng))
        config = BrokerConfig.load(
            None, {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "1000"}
        )
        Upkeep(life.scheduler, life.replicas, lambda: config).start()
        return life

    def _one(self, life: Life) -> None:
        choice = self.rng.random()
        if choice < 0.1:
            change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1)
            self.controller.tell(life.replicas, change)
        elif choice < 0.3 or (choice < 0.6 and life.moves.is_moving(TOPIC, 0)):
            with life.log.directory.failing():
                life.log.roll(life.scheduler.now_ms())
        elif choice < 0.35:
            replica = life.replicas.find(TOPIC, 0)
            log, leader = life.log, replica.led()
            log.truncate_to(self.rng.randint(log.log_start_offset, log.end.offset), life.scheduler.now_ms())
            leader.high_watermark = log.end
            life.moves.source_was_cut(replica)
        super()._one(life)


@pytest.mark.parametrize("seed", range(40))
def test_no_directory_fails_however_long_a_flush_takes_beside_moves_rolls_and_truncations(seed: int) -> None:
    world = SlowWorld(seed, OPERATIONS)
    world.run()
    life = world.life
    assert not life.directories.failed, [directory.failure for directory in life.directories.failed]
    assert not life.log.is_in_use
    deleted(world.controller, life.replicas)
    life.settle()
    assert not life.directories.failed, [directory.failure for directory in life.directories.failed]
    for path in (ONE, TWO):
        assert not [name for name in world.disk.list_directory(path) if name.startswith("t-0")]
