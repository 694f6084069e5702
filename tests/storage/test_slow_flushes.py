"""Flushes that take long: every step of the loop may come between two syncs of their threads."""

from collections.abc import Callable
from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, all_bytes, append_records, open_directory

from kpystorage import names
from kpystorage.checkpoint import parse_epochs
from kpystorage.flush import end_flush
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from tests.storage.overlapping import Threads, Worker

CONFIG = LogConfig(segment_bytes=5000, index_interval_bytes=100)
MOST_SYNCS = 20


def new_log() -> tuple[Log, Threads]:
    """A log with a flush that a thread could begin: new records of a new leader epoch, in an old segment and a new
    one."""
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    threads = Threads(disk)
    log = open_directory(disk).create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    append_records(log, 4, leader_epoch=1)
    log.flush()
    append_records(log, 4, leader_epoch=2)
    return log, threads


def begin(log: Log, threads: Threads) -> Worker:
    flush = log.begin_flush()
    assert flush is not None
    worker = threads.begin(flush.attempt)
    worker.flush = flush  # type: ignore[attr-defined]
    return worker


def finish(log: Log, threads: Threads, worker: Worker) -> None:
    while not worker.is_over:
        threads.go_on(worker)
    end_flush(log, worker.flush, worker.error)  # type: ignore[attr-defined]


def in_next_epoch(log: Log) -> None:
    append_records(log, 4, leader_epoch=log.epochs.latest + 1)


def roll(log: Log) -> None:
    in_next_epoch(log)
    log.roll(NOW_MS)


def truncate(log: Log) -> None:
    in_next_epoch(log)
    log.truncate_to(6, NOW_MS)
    in_next_epoch(log)


def start_over(log: Log) -> None:
    log.truncate_fully_and_start_at(100, NOW_MS)
    in_next_epoch(log)


def flush_at_once(log: Log) -> None:
    in_next_epoch(log)
    log.flush()


def delete(log: Log) -> None:
    log.directory.mark(log)


def set_aside(log: Log) -> None:
    log.directory.mark(log, names.STRAY_DIRECTORY)


def refuse(log: Log) -> None:
    log.directory.refuse(log, "damaged")


def retire(log: Log) -> None:
    roll(log)
    log.advance_log_start(log.end.offset)
    log.delete_old_segments(NOW_MS, log.end.offset)
    log.directory.delete_due_files(NOW_MS + log.config.file_delete_delay_ms)


STEPS = [roll, truncate, start_over, flush_at_once, delete, set_aside, refuse, retire]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_any_step_of_the_loop_may_come_between_two_syncs_of_a_flush(step: Callable[[Log], None]) -> None:
    for syncs in range(MOST_SYNCS):
        log, threads = new_log()
        worker = begin(log, threads)
        for _ in range(syncs):
            threads.go_on(worker)
        if worker.is_over:
            return
        with log.directory.failing():
            step(log)
        finish(log, threads, worker)
        assert (worker.error, log.directory.failure, log.is_in_use) == (None, None, False), f"after {syncs} syncs"
    raise AssertionError("the flush does not end")


@pytest.mark.parametrize("step", [roll, truncate, start_over, flush_at_once], ids=lambda step: step.__name__)
def test_whatever_came_between_a_flush_the_newest_leader_epochs_and_all_records_are_there_after_the_next(
    step: Callable[[Log], None],
) -> None:
    for syncs in range(MOST_SYNCS):
        log, threads = new_log()
        worker = begin(log, threads)
        for _ in range(syncs):
            threads.go_on(worker)
        if worker.is_over:
            return
        step(log)
        finish(log, threads, worker)
        expected, epochs = all_bytes(log), log.epochs.entries()
        append_records(log, 1, leader_epoch=log.epochs.latest)
        log.flush()
        disk = log.directory.disk
        assert isinstance(disk, SimDisk)
        path = f"{log.path}/{names.LEADER_EPOCHS}"
        assert parse_epochs(disk.read(path), path) == epochs
        disk._rng = NoLuck()
        survivor = open_directory(disk.after_power_failure()).logs["t", 0].open()
        assert all_bytes(survivor).startswith(expected)
        assert survivor.epochs.entries() == epochs
    raise AssertionError("the flush does not end")


def test_a_snapshot_of_producers_waits_for_leader_epochs_that_a_thread_has_only_begun_to_write() -> None:
    for syncs in range(MOST_SYNCS):
        log, threads = new_log()
        worker = begin(log, threads)
        for _ in range(syncs):
            threads.go_on(worker)
        if worker.is_over:
            return
        log.roll(NOW_MS)
        assert log.snapshots.offsets[-1] == 8
        path = f"{log.path}/{names.LEADER_EPOCHS}"
        assert parse_epochs(log.directory.disk.read(path), path) == log.epochs.entries()
    raise AssertionError("the flush does not end")


def test_a_flush_that_a_truncation_made_void_is_waited_for_and_confirms_nothing() -> None:
    log, threads = new_log()
    worker = begin(log, threads)
    log.truncate_to(6, NOW_MS)
    append_records(log, 10, leader_epoch=3)
    assert log.begin_flush() is None
    finish(log, threads, worker)
    assert log.recovery_point <= 4
    finish(log, threads, begin(log, threads))
    assert log.recovery_point == log.end.offset


def test_a_copy_may_become_the_log_while_a_thread_flushes_it() -> None:
    for syncs in range(MOST_SYNCS):
        log, threads = new_log()
        directory = log.directory
        del directory.logs["t", 0]
        log.abandon()
        directory.disk.rename(f"{PATH}/t-0", f"{PATH}/elsewhere")
        copy = directory.create_future_log(log_with_segment(), TOPIC_ID, CONFIG, NOW_MS)
        append_records(copy, 4, leader_epoch=1)
        copy.roll(NOW_MS)
        append_records(copy, 4, leader_epoch=2)
        worker = begin(copy, threads)
        for _ in range(syncs):
            threads.go_on(worker)
        if worker.is_over:
            return
        directory.promote(copy)
        finish(copy, threads, worker)
        assert (worker.error, directory.failure) == (None, None), f"after {syncs} syncs"
        assert copy.path == f"{PATH}/t-0"
    raise AssertionError("the flush does not end")


def test_files_that_a_copy_has_set_aside_are_removed_after_it_became_the_log() -> None:
    directory = open_directory()
    copy = directory.create_future_log(log_with_segment(), TOPIC_ID, CONFIG, NOW_MS)
    append_records(copy, 4)
    copy.roll(NOW_MS)
    copy.advance_log_start(4)
    assert copy.delete_old_segments(NOW_MS, 4) == 1
    directory.promote(copy)
    assert any(name.endswith(names.DELETED) for name in directory.disk.list_directory(copy.path))
    directory.delete_due_files(NOW_MS + CONFIG.file_delete_delay_ms)
    assert not any(name.endswith(names.DELETED) for name in directory.disk.list_directory(copy.path))


def log_with_segment() -> Log:
    """A log whose copy is made."""
    other = open_directory().create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    append_records(other, 1)
    return other


def test_a_clean_stop_leaves_nothing_to_a_flush_that_was_given_up() -> None:
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    directory = open_directory(disk)
    logs = [directory.create_log("t", number, TOPIC_ID, CONFIG, NOW_MS) for number in range(12)]
    for log in logs:
        append_records(log, 4)
        assert log.begin_flush() is not None  # it waits for a descriptor, for ever
    directory.close()
    assert [directory.recovery_points["t", number] for number in range(12)] == [4] * 12


class NoLuck:
    """The luck with which nothing survives that was not synced."""

    def random(self) -> float:
        return 0.999

    def randint(self, first: int, _last: int, /) -> int:
        return first
