"""Recovery where an index or a header is damaged, or a checkpoint says less than the batches: nothing that was flushed
is taken for a leftover, and no epoch is forgotten."""

from random import Random

import pytest
from log_making import (
    NOW_MS,
    PATH,
    TOPIC_ID,
    all_bytes,
    append,
    append_records,
    make_batch,
    make_marker,
    open_directory,
)

from kpystorage.directory import LogDirectory
from kpystorage.errors import CorruptLog
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk
from kpywire.batch import HEADER_BYTES

CONFIG = LogConfig(index_interval_bytes=300)
PRODUCER = 7


def new_log() -> tuple[SimDisk, Log]:
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    return disk, open_directory(disk, config=CONFIG).create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)


def abort(log: Log, leader_epoch: int) -> None:
    """Append a transaction that is aborted."""
    offset = log.end.offset
    append(log, make_batch(offset, producer_id=PRODUCER, transactional=True, leader_epoch=leader_epoch))
    append(log, make_marker(offset + 1, PRODUCER, commit=False, leader_epoch=leader_epoch))


def damage(disk: SimDisk, path: str, position: int, data: bytes) -> None:
    disk.file(path).pwrite(data, position)


def forget_transactions(disk: SimDisk, log: Log) -> None:
    """Zero what was written of the active segment's transaction index."""
    path = log.active.transaction_index.path
    damage(disk, path, 0, bytes(disk.file(path).size()))


def after_power_failure(disk: SimDisk) -> LogDirectory:
    """All that is on the disk is still there, and nothing says that it was flushed but the checkpoints."""
    disk.synchronize_all(PATH)
    directory = open_directory(disk.after_power_failure(), config=CONFIG)
    assert directory.shutdown is Shutdown.UNCLEAN
    return directory


def test_a_lost_transaction_index_makes_no_older_segment_a_leftover_of_its_epoch() -> None:
    disk, log = new_log()
    append_records(log, 3, leader_epoch=1)
    log.roll(NOW_MS)
    abort(log, leader_epoch=2)
    log.flush()
    whole, aborted = all_bytes(log), log.aborted_transactions(0, 5)
    forget_transactions(disk, log)
    again = after_power_failure(disk).logs["t", 0]
    assert (again.end.offset, all_bytes(again)) == (5, whole)
    assert again.aborted_transactions(0, 5) == aborted
    assert again.epochs.entries() == [(1, 0), (2, 3)]


def test_after_the_death_of_the_process_neither_is_the_tail_of_that_segment() -> None:
    disk, log = new_log()
    append_records(log, 1)
    log.roll(NOW_MS)
    abort(log, leader_epoch=1)
    append_records(log, 3, leader_epoch=1)
    append_records(log, 3, leader_epoch=1)
    assert len(log.active.offset_index)
    for leader_epoch in (1, 1, 2):
        append(log, make_batch(log.end.offset, value_bytes=1, leader_epoch=leader_epoch))
    whole = all_bytes(log)
    forget_transactions(disk, log)
    directory = open_directory(disk.after_process_death(), config=CONFIG)
    assert directory.shutdown is Shutdown.PROCESS_DIED
    assert all_bytes(directory.logs["t", 0].open()) == whole


def test_a_torn_marker_before_a_lost_transaction_index_is_cut_off_and_the_log_works() -> None:
    disk, log = new_log()
    append_records(log, 1)
    log.flush()
    log.directory.write_checkpoint("recovery-point-offset-checkpoint", log.directory.render_recovery_points())
    log.roll(NOW_MS)
    abort(log, leader_epoch=0)
    torn, size = log.active.log.path, log.active.size
    log.roll(NOW_MS)
    disk.unlink(log.snapshots.path(log.end.offset))
    abort(log, leader_epoch=0)
    forget_transactions(disk, log)
    marker_bytes = len(make_marker(2, PRODUCER, commit=False))
    damage(disk, torn, size - marker_bytes + HEADER_BYTES, bytes(marker_bytes - HEADER_BYTES))
    directory = after_power_failure(disk)
    assert directory.logs["t", 0].open().end.offset == 2
    assert not directory.damaged


@pytest.mark.parametrize("bit", [3, 20, 40])
def test_an_offset_that_was_damaged_upwards_does_not_make_what_was_flushed_behind_it_a_leftover(bit: int) -> None:
    disk, log = new_log()
    append_records(log, 1)
    first_bytes = log.active.size
    for _ in range(5):
        append_records(log, 1)
    log.flush()
    log.directory.write_checkpoint("recovery-point-offset-checkpoint", log.directory.render_recovery_points())
    damage(disk, log.active.log.path, first_bytes, (1 | 1 << bit).to_bytes(8, "big"))
    content = disk.read(log.active.log.path)
    path = log.active.log.path
    directory = after_power_failure(disk)
    with pytest.raises(CorruptLog, match="had been flushed"):
        directory.logs["t", 0].open()
    assert directory.disk.read(path) == content


@pytest.mark.parametrize("power_fails", [False, True])
def test_epochs_that_went_with_a_log_start_come_back_with_it(*, power_fails: bool) -> None:
    """The epochs are on disk, and the log start is not: what had older ones would pass for the same in any log."""
    disk, log = new_log()
    for leader_epoch in (1, 1, 3, 5):
        append_records(log, 3, leader_epoch=leader_epoch)
        log.roll(NOW_MS)
    before = log.epochs.entries()
    assert before == [(1, 0), (3, 6), (5, 9)]
    log.advance_log_start(10)
    log.flush()
    if power_fails:
        again = after_power_failure(disk).logs["t", 0]
    else:
        again = open_directory(disk.after_process_death(), config=CONFIG).logs["t", 0]
    again.open()
    assert again.log_start_offset == 0
    assert again.epochs.entries() == before
    assert again.epochs.dirty
    assert again.epochs.end_offset_for(2, again.end.offset) == (1, 6)
