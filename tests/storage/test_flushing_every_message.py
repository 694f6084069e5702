"""``flush.messages=1``: what was appended survives a power failure, whatever else goes on."""

from contextlib import suppress
from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, append_records, open_directory

from kpystorage import names
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk, SimulatedCrash

EVERY_MESSAGE = LogConfig(flush_messages=1)


def new_disk() -> SimDisk:
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    return disk


def new_log(disk: SimDisk, config: LogConfig) -> Log:
    return open_directory(disk, config=config).create_log("t", 0, TOPIC_ID, config, NOW_MS)


def end_after_power_failure(disk: SimDisk) -> int:
    """The end of the log on what is left, with the least luck of some."""
    ends = []
    for seed in range(20):
        disk._rng = Random(seed)
        directory = open_directory(disk.after_power_failure(), config=EVERY_MESSAGE)
        found = directory.logs.get(("t", 0))
        ends.append(-1 if found is None else found.open().end.offset)
    return min(ends)


def test_an_append_is_durable_while_a_thread_flushes_what_came_before_it() -> None:
    disk = new_disk()
    log = new_log(disk, LogConfig())
    append_records(log, 1)
    under_way = log.begin_flush()
    assert under_way is not None
    log.configure(EVERY_MESSAGE)
    append_records(log, 1)
    assert log.recovery_point == 2
    assert end_after_power_failure(disk) == 2
    under_way.run()
    log.finish_flush(under_way)
    assert (log.recovery_point, log.unflushed_bytes, log.is_in_use) == (2, 0, False)


def test_unflushed_records_of_a_dead_process_are_flushed_before_they_are_served() -> None:
    disk = new_disk()
    append_records(new_log(disk, LogConfig()), 3)
    survivor = disk.after_process_death()
    directory = open_directory(survivor, config=EVERY_MESSAGE)
    assert directory.logs["t", 0].open().end.offset == 3
    assert end_after_power_failure(survivor) == 3


def test_names_that_a_process_left_without_flushing_them_are_durable_with_the_next_append() -> None:
    disk = new_disk()
    log = new_log(disk, EVERY_MESSAGE)
    append_records(log, 1)
    log.roll(NOW_MS)
    survivor = disk.after_process_death()
    log = open_directory(survivor, config=EVERY_MESSAGE).logs["t", 0]
    append_records(log.open(), 1)
    assert end_after_power_failure(survivor) == 2


def test_the_topic_id_of_a_log_that_a_process_left_empty_is_durable_with_the_first_append() -> None:
    disk = new_disk()
    new_log(disk, EVERY_MESSAGE)
    survivor = disk.after_process_death()
    append_records(open_directory(survivor, config=EVERY_MESSAGE).logs["t", 0].open(), 1)
    for seed in range(20):
        survivor._rng = Random(seed)
        directory = open_directory(survivor.after_power_failure(), config=EVERY_MESSAGE)
        assert directory.read_topic_id(directory.logs["t", 0]) == TOPIC_ID


def test_the_end_of_a_fully_expired_log_survives_a_crash_at_any_moment() -> None:
    for calls in range(1, 30):
        disk = new_disk()
        log = new_log(disk, LogConfig(flush_messages=1, retention_ms=1, file_delete_delay_ms=0))
        append_records(log, 3)
        disk.crash_at = disk.calls + calls
        with suppress(SimulatedCrash):
            log.delete_old_segments(NOW_MS + 60_000, 3)
        survivor = disk.after_process_death()
        assert open_directory(survivor, config=EVERY_MESSAGE).logs["t", 0].open().end.offset == 3
        assert end_after_power_failure(survivor) == 3


def test_records_whose_removal_a_process_left_undurable_do_not_come_back() -> None:
    disk = new_disk()
    log = new_log(disk, EVERY_MESSAGE)
    append_records(log, 3)
    log.roll(NOW_MS)
    append_records(log, 1)
    log.directory.write_checkpoint(names.RECOVERY_POINTS, log.directory.render_recovery_points())
    log.directory.promise_log_start(log, 3)
    log.directory.write_checkpoint(names.LOG_STARTS, log.directory.render_log_starts())
    log.directory.noted()
    log.advance_log_start(3)
    assert log.delete_old_segments(NOW_MS, 4) == 1
    survivor = disk.after_process_death()
    directory = open_directory(survivor, config=EVERY_MESSAGE)
    assert directory.logs["t", 0].open().log_start_offset == 3
    directory.write_checkpoint(names.LOG_STARTS, directory.render_log_starts())
    for seed in range(100):
        survivor._rng = Random(seed)
        left = open_directory(survivor.after_power_failure(), config=EVERY_MESSAGE)
        assert left.logs["t", 0].open().log_start_offset == 3


@pytest.mark.parametrize("records", [0, 3])
def test_the_new_start_of_a_restarted_follower_log_is_durable(records: int) -> None:
    disk = new_disk()
    log = new_log(disk, EVERY_MESSAGE)
    if records:
        append_records(log, records)
    log.truncate_fully_and_start_at(42, NOW_MS)
    assert log.recovery_point == 42
    assert end_after_power_failure(disk) == 42


def test_to_start_over_is_flushed_no_sooner_than_so_many_messages_would_be() -> None:
    log = new_log(new_disk(), LogConfig(flush_messages=43))
    log.truncate_fully_and_start_at(42, NOW_MS)
    assert log.recovery_point == 0
    log.truncate_fully_and_start_at(43, NOW_MS)
    assert log.recovery_point == 43
