"""The disk dies at every call of writing, compacting and swapping: nothing is lost, and nothing comes back."""

from functools import partial

import pytest
from compaction_world import CompactionWorld, reopened
from crash_world import check_indexes
from crashing import crashes, failing
from log_making import open_directory

from kpystorage.errors import DiskFailure
from kpystorage.log import Log
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk, SimulatedCrash


def compacts_enough(world: CompactionWorld) -> bool:
    return world.passes > 1 and bool(world.gone)


def check(world: CompactionWorld, log: Log | None, kept_end: int) -> None:
    """Check that the contents are right, and the log can be written to and compacted again."""
    if log is None:
        assert kept_end == 0
        return
    world.check(log, kept_end)
    for segment in log.segments:
        check_indexes(segment)
    names = log.directory.disk.list_directory(log.path)
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    world.history = [batch for batch in world.history if batch.offset < log.end.offset]
    world.compact(log)
    world.check(log, log.end.offset)


@pytest.mark.parametrize("seed", [9, 26])
def test_a_power_failure_at_any_call_of_a_pass_loses_nothing_and_brings_nothing_back(seed: int) -> None:
    for world in crashes(partial(CompactionWorld, seed), compacts_enough):
        check(world, reopened(world, world.disk.after_power_failure(), Shutdown.UNCLEAN), world.promised_end)


@pytest.mark.parametrize("seed", [6])
def test_the_death_of_the_process_at_any_call_of_a_pass_loses_nothing_and_brings_nothing_back(seed: int) -> None:
    for world in crashes(partial(CompactionWorld, seed), compacts_enough):
        check(world, reopened(world, world.disk.after_process_death(), Shutdown.PROCESS_DIED), world.acknowledged_end)


@pytest.mark.parametrize("seed", [23])
def test_a_crash_of_the_start_that_finishes_a_swap_harms_nothing_either(seed: int) -> None:
    for world in crashes(partial(CompactionWorld, seed), compacts_enough):
        for again in range(1, 1000):
            disk = world.disk.after_process_death()
            if not disk_in_the_middle(disk):
                break
            disk.crash_at = again
            try:
                reopened(world, disk, Shutdown.UNCLEAN)
            except SimulatedCrash:
                left = disk.after_power_failure()
                check(world, reopened(world, left, Shutdown.UNCLEAN), world.promised_end)
            else:
                break


def disk_in_the_middle(disk: SimDisk) -> bool:
    """Whether there is something to finish."""
    if disk.status("/data/t-0") is None:
        return False
    return any(name.endswith((".cleaned", ".swap", ".deleted")) for name in disk.list_directory("/data/t-0"))


@pytest.mark.parametrize("seed", [33])
def test_a_call_that_fails_takes_the_directory_offline_and_harms_nothing(seed: int) -> None:
    for world in failing(partial(CompactionWorld, seed), compacts_enough):
        with pytest.raises((DiskFailure, OSError)):
            world.run()
        if not hasattr(world, "directory"):
            continue
        world.directory.abandon()
        world.disk.fail_at = 0
        check(world, reopened(world, world.disk, Shutdown.PROCESS_DIED), world.acknowledged_end)


def test_a_log_that_was_compacted_is_the_same_after_a_clean_stop() -> None:
    world = CompactionWorld(3)
    world.run()
    world.directory.close()
    directory = open_directory(world.disk)
    assert directory.shutdown is Shutdown.CLEAN
    world.check(directory.logs["t", 0].open(), world.acknowledged_end)
