"""The disk dies at every call while topics are deleted and made again: no deleted topic stays or comes back.

What a power failure leaves of a log that was never flushed may not say whose it was: it is kept, and named so.
"""

from functools import partial
from random import Random

import pytest
from crashing import blank_disk, crashes
from log_making import append, make_batch
from moving_world import LEVEL, NODE, ONE, TWO, Controller, Life, topic_records

from kpystorage import names, partition_metadata
from kpystorage.errors import CorruptFile
from kpystorage.sim_disk import SimDisk
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord

OPERATIONS = 45
TOPICS = ("a", "b")
PARTITIONS = 2


class DeletingWorld:
    """The workload; ``run`` goes on until the disk dies or the operations are over."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = blank_disk(seed + 1, ONE, TWO)
        self.controller = Controller()
        self.controller.tell(None, FeatureLevelRecord(name="metadata.version", feature_level=LEVEL))
        self.made = 0
        self.deletions = 0
        self.promised: dict[tuple[bytes, int], tuple[int, int]] = {}
        """By topic id and partition: the log start and the end that a power failure leaves."""
        self.moved: dict[tuple[bytes, int], int] = {}
        """The offsets to which log starts were moved, perhaps without effect."""
        self.life: Life

    def run(self) -> None:
        self.life = Life(self.disk, self.controller)
        self.life.begin()
        for _ in range(OPERATIONS):
            self._one(self.life)
        self.life.settle()

    def _one(self, life: Life) -> None:
        name, index, choice = self.rng.choice(TOPICS), self.rng.randrange(PARTITIONS), self.rng.random()
        topic = self.controller.image.topics.get(name)
        if topic is None:
            self._create(life, name)
        elif choice < 0.2:
            self.deletions += 1
            self.controller.tell(life.replicas, RemoveTopicRecord(topic_id=topic.id))
            if self.rng.random() < 0.5:
                self._create(life, name)
        elif choice < 0.6:
            self._append(life, name, index)
        elif choice < 0.75:
            log = life.replicas.find(name, index).led().log
            end = log.end.offset
            log.flush()
            self.promised[topic.id, index] = (self._start_of(topic.id, index), end)
        elif choice < 0.85:
            log = life.replicas.find(name, index).led().log
            log.flush()
            start, end = self.rng.randint(log.log_start_offset, log.end.offset), log.end.offset
            self.moved[topic.id, index] = start
            log.advance_log_start(start)
            log.delete_old_segments(life.scheduler.now_ms(), end)
            log.directory.write_checkpoint(names.LOG_STARTS, log.directory.render_log_starts())
            self.promised[topic.id, index] = (start, end)
        else:
            for directory in life.directories:
                directory.write_checkpoint(names.RECOVERY_POINTS, directory.render_recovery_points())
                directory.noted()
        life.scheduler.advance(self.rng.choice([0, 1, 30, 1100]))

    def _start_of(self, topic_id: bytes, index: int) -> int:
        return self.promised.get((topic_id, index), (0, 0))[0]

    def _create(self, life: Life, name: str) -> None:
        self.made += 1
        topic_id = self.made.to_bytes(16, "big")
        paths = [self.rng.choice([ONE, TWO]) for _ in range(PARTITIONS)]
        self.controller.tell(life.replicas, *topic_records(name, topic_id, paths))

    def _append(self, life: Life, name: str, index: int) -> None:
        leader = life.replicas.find(name, index).led()
        offset = leader.log.end.offset
        append(leader.log, make_batch(offset, self.rng.randint(1, 3), leader_epoch=leader.epoch, producer_id=self.made))
        leader.advance_high_watermark()

    # What must be true of what is left

    def check(self, disk: SimDisk) -> None:
        """Every topic has its own records and none of another; of the others not even a name is left."""
        life = Life(disk, self.controller)
        life.begin()
        for topic in self.controller.image.topics.values():
            change = [PartitionChangeRecord(topic_id=topic.id, partition_id=i, leader=NODE) for i in topic.partitions]
            self.controller.tell(life.replicas, *change)
        self._check_logs(life)
        life.settle()
        self.check_names(disk)
        life.close()
        again = Life(disk, self.controller)
        again.begin()
        self._check_logs(again)
        again.close()

    def _check_logs(self, life: Life) -> None:
        for name, topic in self.controller.image.topics.items():
            for index in range(PARTITIONS):
                log = life.replicas.find(name, index).led().log
                start, end = self.promised.get((topic.id, index), (0, 0))
                assert log.directory.read_topic_id(log) == topic.id
                assert log.log_start_offset >= start
                assert log.end.offset >= end, "records that were flushed are lost"
                assert log.log_start_offset <= log.end.offset
                assert log.log_start_offset <= self.moved.get((topic.id, index), 0), "of another life of the topic"

    def check_names(self, disk: SimDisk) -> None:
        expected = {f"{name}-{index}" for name in self.controller.image.topics for index in range(PARTITIONS)}
        found = []
        for path in (ONE, TWO):
            for name in disk.list_directory(path):
                if name.endswith(names.STRAY_DIRECTORY):
                    assert not tells_its_topic(disk, f"{path}/{name}/{names.PARTITION_METADATA}")
                elif "-" in name and "checkpoint" not in name:
                    found.append(name)
        assert sorted(found) == sorted(expected)


def tells_its_topic(disk: SimDisk, path: str) -> bool:
    try:
        return bool(partition_metadata.parse(disk.read(path), path))
    except (FileNotFoundError, CorruptFile):
        return False


def deletes_enough(world: DeletingWorld) -> bool:
    world.check_names(world.disk)
    return world.deletions > 3


EVERY = [pytest.param(5, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("step", EVERY)
@pytest.mark.parametrize("seed", [1, 3])
def test_a_power_failure_at_any_call_leaves_nothing_of_a_deleted_topic(seed: int, step: int) -> None:
    for world in crashes(partial(DeletingWorld, seed), deletes_enough, step=step):
        world.check(world.disk.after_power_failure())


@pytest.mark.parametrize("step", EVERY)
@pytest.mark.parametrize("seed", [4])
def test_the_death_of_the_process_at_any_call_leaves_nothing_of_a_deleted_topic(seed: int, step: int) -> None:
    for world in crashes(partial(DeletingWorld, seed), deletes_enough, step=step):
        world.check(world.disk.after_process_death())
