"""The disk dies at every call of a workload with logs that begin in a store: what the store has stays reachable."""

from functools import partial
from random import Random

import pytest
from crash_world import Model, World, check_derived, check_kept
from crashing import crashes
from log_making import NOW_MS, PATH, TOPIC_ID, append_records, open_directory

from kpystorage import names
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk

OPERATIONS = 60


class TieredWorld(World):
    """The workload, with segments that go from the disk because a store has them."""

    def __init__(self, seed: int, operations: int) -> None:
        super().__init__(seed, operations)
        self.config = self.config._replace(is_tiered=True, segment_bytes=1200)
        self.starts = [0] * self.logs
        """The log starts that DeleteRecords has promised."""
        self.gone = 0
        """The segments that went from the disk."""
        self.local_ends = [0] * self.logs
        """The offsets up to which a store has the records, and the disk perhaps not."""

    def _one(self, model: Model, log: Log) -> None:
        if self.rng.random() < 0.2:
            end = log.end.offset
            if self.rng.random() < 0.7:
                log.flush()
                model.promised_end = end
            self._shorten(model, log)
        super()._one(model, log)
        log, number = self.directory.logs["t", log.partition], log.partition
        if not log.is_open:
            return
        if log.end.offset < self.local_ends[number]:  # it was cut where only the store had it
            self.local_ends[number] = model.log_start = log.end.offset
        self.starts[number] = min(self.starts[number], log.end.offset)

    def _shorten(self, model: Model, log: Log) -> None:
        if self.rng.random() < 0.3:
            start = self.rng.randint(log.log_start_offset, log.end.offset)
            model.log_start = max(model.log_start, start)
            log.advance_log_start(start)
            self.directory.write_checkpoint(names.LOG_STARTS, self.directory.render_log_starts())
            self.starts[log.partition] = start
            return
        following = [*log.base_offsets, log.end.offset]
        wanted = self.rng.randint(0, len(log.segments) - 1)
        model.log_start = max(model.log_start, following[wanted])
        gone = log.delete_oldest(wanted, NOW_MS)
        self.gone += gone
        self.local_ends[log.partition] = following[gone]


def check_recovered(world: TieredWorld, disk: SimDisk, shutdown: Shutdown) -> None:
    directory = open_directory(disk, config=world.config)
    for (_, partition), log in directory.logs.items():
        model, whole = world.models[partition], shutdown is Shutdown.PROCESS_DIED
        check_kept(model, log.open(), model.acknowledged_end if whole else model.promised_end)
        check_derived(log)
        check_elsewhere(world, log)
        append_records(log, 3, leader_epoch=model.epoch + 1)
    directory.close()
    again = open_directory(disk, config=world.config)
    for (_, partition), log in again.logs.items():
        before = directory.logs["t", partition]
        assert log.open().log_start_offset == before.log_start_offset
        assert log.epochs.entries() == before.epochs.entries()
        check_derived(log)


def check_elsewhere(world: TieredWorld, log: Log) -> None:
    """The log ends behind all that only the store has, and knows the start and the epochs of that."""
    first = log.base_offsets[0]
    assert log.log_start_offset <= log.local_log_start_offset <= log.end.offset
    assert log.log_start_offset >= min(world.starts[log.partition], log.end.offset)
    assert log.end.offset >= min(world.local_ends[log.partition], first)
    if log.log_start_offset < first:
        earliest = log.epochs.earliest
        assert earliest is not None
        assert earliest[1] <= log.log_start_offset
        handed_over = world.models[log.partition].handed_over
        for offset, batches in handed_over.items():
            if log.log_start_offset <= offset < first and len(batches) == 1:
                (data,) = batches
                assert log.epochs.epoch_for(offset) >= int.from_bytes(data[12:16], "big")


@pytest.mark.parametrize("seed", range(12))
def test_a_log_that_starts_over_behind_its_end_is_found_after_a_power_failure(seed: int) -> None:
    disk, config = SimDisk(Random(seed)), LogConfig(is_tiered=True)
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    directory = open_directory(disk, config=config)
    log = directory.create_log("t", 0, TOPIC_ID, config, NOW_MS)
    append_records(log, 6)
    log.flush()
    log.advance_log_start(4)
    directory.write_checkpoint(names.LOG_STARTS, directory.render_log_starts())
    log.truncate_fully_and_start_at(8, NOW_MS)
    if seed % 3 == 2:
        append_records(log, 2, leader_epoch=3)
    if seed % 3:
        log.flush()
    found = open_directory(disk.after_power_failure(), config=config).logs["t", 0].open()
    assert found.log_start_offset == found.base_offsets[0] == 8
    assert found.epochs.entries() == [(3, 8)][: seed % 3 == 2]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_power_failure_at_any_call_keeps_the_start_the_epochs_and_the_end(seed: int) -> None:
    for world in crashes(partial(TieredWorld, seed, OPERATIONS), lambda played: played.gone > 3):
        check_recovered(world, world.disk.after_power_failure(), Shutdown.UNCLEAN)


@pytest.mark.parametrize("seed", [4, 5])
def test_the_death_of_the_process_at_any_call_keeps_the_start_the_epochs_and_the_end(seed: int) -> None:
    for world in crashes(partial(TieredWorld, seed, OPERATIONS), lambda played: played.gone > 3):
        check_recovered(world, world.disk.after_process_death(), Shutdown.PROCESS_DIED)
