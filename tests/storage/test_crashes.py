"""The disk dies at every call of a workload: what was promised is there, and what is derived is what the log says."""

from functools import partial
from itertools import count
from random import Random

import pytest
from crash_world import CONFIG, World, check_derived, check_kept
from crashing import crashed, crashes, failing
from log_making import NOW_MS, PATH, TOPIC_ID, append, append_records, make_batch, make_marker, open_directory

from kpystorage.entry_file import ENTRIES_PER_WRITE
from kpystorage.errors import DiskFailure
from kpystorage.log_config import LogConfig
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk, SimulatedCrash

OPERATIONS = 60


def check_recovered(world: World, disk: SimDisk, shutdown: Shutdown, last: Shutdown | None = None) -> None:
    """Open what ``shutdown`` left, hold it against the model, then go on with it. ``last`` is how it ended since."""
    directory = open_directory(disk, config=CONFIG)
    assert directory.shutdown in (last or shutdown, Shutdown.CLEAN, Shutdown.UNCLEAN)
    for (_, partition), log in directory.logs.items():
        model = world.models[partition]
        whole = shutdown is Shutdown.PROCESS_DIED
        check_kept(model, log.open(), model.acknowledged_end if whole else model.promised_end)
        check_derived(log)
    for partition, model in enumerate(world.models):
        assert model.promised_end == 0 or ("t", partition) in directory.logs
    for (_, partition), log in directory.logs.items():
        epoch = world.models[partition].epoch + 1
        before = log.open().end.offset
        append_records(log, 3, leader_epoch=epoch)
        assert log.end.offset == before + 3
    directory.close()
    again = open_directory(disk, config=CONFIG)
    assert again.shutdown is Shutdown.CLEAN
    for log in again.logs.values():
        check_derived(log.open())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_power_failure_at_any_call_keeps_what_was_flushed(seed: int) -> None:
    for world in crashes(partial(World, seed, OPERATIONS)):
        check_recovered(world, world.disk.after_power_failure(), Shutdown.UNCLEAN)


@pytest.mark.parametrize("seed", [11, 12])
def test_the_death_of_the_process_while_it_recovers_leaves_as_much_to_check_as_before(seed: int) -> None:
    for world in crashes(partial(World, seed, OPERATIONS), first=10, step=5):
        disk = world.disk.after_power_failure()
        for later in count(1):
            disk.crash_at = later
            try:
                open_directory(disk, config=CONFIG).abandon()
            except SimulatedCrash:
                disk = disk.after_process_death()
            else:
                break
        check_recovered(world, disk.after_process_death(), Shutdown.UNCLEAN, Shutdown.PROCESS_DIED)


def test_the_death_of_the_process_while_it_looks_at_what_its_last_death_left() -> None:
    """Aborted transactions behind the last index entry in the file are indexed again, however often that begins."""
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    config = LogConfig(index_interval_bytes=100)
    log = open_directory(disk).create_log("t", 0, TOPIC_ID, config, NOW_MS)
    for number in range(ENTRIES_PER_WRITE * 3 // 2):
        append(log, make_batch(log.end.offset, producer_id=7, base_sequence=number, transactional=True))
        append(log, make_marker(log.end.offset, 7, commit=False))
    check_derived(log)
    disk = disk.after_process_death()
    for later in count(1):
        directory = open_directory(disk, config=config, recover=False)
        assert directory.shutdown is Shutdown.PROCESS_DIED
        disk.crash_at = disk.calls + later
        try:
            log = directory.logs["t", 0].open()
        except SimulatedCrash:
            disk = disk.after_process_death()
        else:
            break
    check_derived(log)
    assert later > ENTRIES_PER_WRITE // 4


def test_a_power_failure_keeps_what_was_flushed_where_many_logs_are_flushed_at_once() -> None:
    seed, logs = 8, 10  # with a clean stop in the middle
    for world in crashes(partial(World, seed, OPERATIONS, logs)):
        check_recovered(world, world.disk.after_power_failure(), Shutdown.UNCLEAN)


@pytest.mark.parametrize("seed", [4, 5])
def test_the_death_of_the_process_at_any_call_keeps_what_was_acknowledged(seed: int) -> None:
    for world in crashes(partial(World, seed, OPERATIONS)):
        check_recovered(world, world.disk.after_process_death(), Shutdown.PROCESS_DIED)


@pytest.mark.parametrize("seed", [9, 10])
def test_logs_that_were_not_used_after_the_process_died_are_checked_before_a_clean_stop(seed: int) -> None:
    logs = 3
    for world in crashes(partial(World, seed, OPERATIONS, logs)):
        disk = world.disk.after_process_death()
        directory = open_directory(disk, config=CONFIG)
        if directory.shutdown is Shutdown.PROCESS_DIED and ("t", 0) in directory.logs:
            directory.logs["t", 0].open()
            assert not any(log.is_open for (_, partition), log in directory.logs.items() if partition)
        directory.close()
        again = open_directory(disk.after_power_failure(), config=CONFIG)
        assert again.shutdown is Shutdown.CLEAN
        for (_, partition), log in again.logs.items():
            model = world.models[partition]
            check_kept(model, log.open(), model.acknowledged_end)
            check_derived(log)


def test_the_same_seed_gives_the_same_crash() -> None:
    def left(seed: int) -> list[bytes]:
        disk = crashed(World(seed, OPERATIONS), 100).disk.after_power_failure()
        return [disk.read(f"/data/t-0/{name}") for name in sorted(disk.list_directory("/data/t-0"))]

    assert left(1) == left(1)


@pytest.mark.parametrize("seed", [6, 7])
def test_a_call_that_fails_takes_the_directory_offline_and_nothing_else_is_lost(seed: int) -> None:
    for world in failing(partial(World, seed, OPERATIONS)):
        with pytest.raises((DiskFailure, OSError)) as failure:
            world.run()
        opened = getattr(world, "directory", None)
        if opened is not None and opened.logs and opened.failure is not None:
            check_offline(world, failure.value)
            opened.abandon()
            world.disk.fail_at = 0
            check_recovered(world, world.disk, Shutdown.PROCESS_DIED)


def check_offline(world: World, failure: BaseException) -> None:
    """Every log of the directory refuses; none tries again."""
    assert isinstance(failure, DiskFailure)
    calls = world.disk.calls
    for log in world.directory.logs.values():
        with pytest.raises(DiskFailure):
            append_records(log.open(), 1)
        with pytest.raises(DiskFailure):
            log.open().read(log.log_start_offset, 1000, log.end, min_one_batch=True)
        assert log.begin_flush() is None
    assert world.disk.calls == calls
