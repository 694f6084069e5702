"""An empty log that begins behind what a store has: a thread writes beforehand, so that the loop waits for no disk."""

from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, append_records, open_directory

from kpystorage import names, producer_snapshot
from kpystorage.checkpoint import render_epochs
from kpystorage.cutting import Preparation, preparation
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.producer_snapshot import SnapshotEntry
from kpystorage.sim_disk import SimDisk

TIERED = LogConfig(is_tiered=True)
EPOCHS = [(0, 0), (3, 80)]
SNAPSHOT = producer_snapshot.render([SnapshotEntry(7, 0, 9, 99, 0, NOW_MS, 0, -1)])


class CountingDisk(SimDisk):
    """A disk that counts what waits for it."""

    synced = 0

    def synchronize(self, node: object) -> None:
        self.synced += 1
        super().synchronize(node)  # type: ignore[arg-type]

    def synchronize_directory(self, path: str) -> None:
        self.synced += 1
        super().synchronize_directory(path)


def empty() -> tuple[CountingDisk, LogDirectory, Log]:
    """A disk with a new log."""
    disk = CountingDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    directory = open_directory(disk, config=TIERED)
    return disk, directory, directory.create_log("t", 0, TOPIC_ID, TIERED, NOW_MS)


def prepared(log: Log) -> Preparation:
    preparing = preparation(log, 100, 0, EPOCHS, SNAPSHOT)
    assert preparing is not None
    preparing.run()
    return preparing


def begun(log: Log) -> None:
    prepared(log)
    log.begin_in_middle(100, 0, EPOCHS, SNAPSHOT, NOW_MS)


def found(disk: SimDisk) -> tuple[int, int, int, list[tuple[int, int]], int]:
    """The log as the next start finds it, which goes on and is found again."""
    directory = open_directory(disk, config=TIERED)
    log = directory.logs["t", 0].open()
    assert directory.loss_of(log) is None
    state = log.log_start_offset, log.local_log_start_offset, log.end.offset, log.epochs.entries()
    producers = len(log.producers.producers)
    append_records(log, 1, leader_epoch=9)
    directory.close()
    assert open_directory(disk, config=TIERED).logs["t", 0].open().end.offset == log.end.offset
    return *state, producers


SNAPSHOT_FILE = names.segment_file(100, names.PRODUCER_SNAPSHOT)
EMPTY = (0, 0, 0, [], 0)
NEW = (0, 100, 100, EPOCHS, 1)


def test_the_loop_waits_for_no_disk() -> None:
    disk, _, log = empty()
    prepared(log)
    before = disk.synced
    log.begin_in_middle(100, 0, EPOCHS, SNAPSHOT, NOW_MS)
    assert disk.synced == before
    assert (log.local_log_start_offset, log.end.offset, len(log.producers.producers)) == (100, 100, 1)


@pytest.mark.parametrize("is_power", [True, False])
def test_a_crash_leaves_the_new_log_or_an_empty_one(*, is_power: bool) -> None:
    for call in range(1, 100):
        disk, _, log = empty()
        disk.crash_at = disk.calls + call
        try:
            begun(log)
        except BaseException:
            assert found(disk.after_power_failure() if is_power else disk.after_process_death()) in (EMPTY, NEW)
        else:
            break
    assert call > 5


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_crash_after_appends_leaves_what_was_flushed(*, is_flushed: bool) -> None:
    for seed in range(40):
        disk, directory, log = empty()
        disk._rng = Random(seed)
        if seed % 4:
            log.flush()
        begun(log)
        append_records(log, 3, leader_epoch=9)
        assert log in directory.rolled, "it is flushed soon"
        if is_flushed:
            log.flush()
        left = open_directory(disk.after_power_failure(), config=TIERED)
        if not is_flushed and ("t", 0) not in left.logs:
            continue  # its directory was new
        again = left.logs["t", 0].open()
        assert left.loss_of(again) is None
        assert again.log_start_offset == 0
        if is_flushed or again.end.offset > 0:
            assert again.end.offset in ((103,) if is_flushed else range(100, 104))
            assert again.epochs.entries()[:2] == EPOCHS
            assert list(again.producers.producers) == [7]


def test_a_log_that_began_so_begins_there_after_a_clean_stop() -> None:
    disk, directory, log = empty()
    begun(log)
    directory.close()
    assert found(disk) == NEW


def test_a_preparation_for_nothing_is_undone_by_the_next_write() -> None:
    disk, directory, log = empty()
    log.epochs.assign(4, 0)
    log.write_epochs()
    preparing = prepared(log)
    assert disk.read(f"{log.path}/{names.LEADER_EPOCHS}") == render_epochs(EPOCHS)
    assert SNAPSHOT_FILE in disk.list_directory(log.path)
    preparing.give_up()
    assert SNAPSHOT_FILE not in disk.list_directory(log.path)
    append_records(log, 1, leader_epoch=4)
    directory.close()
    assert disk.read(f"{log.path}/{names.LEADER_EPOCHS}") == render_epochs([(4, 0)])


def test_a_log_with_records_is_not_prepared() -> None:
    _, _, log = empty()
    append_records(log, 1, leader_epoch=4)
    assert preparation(log, 100, 0, EPOCHS, SNAPSHOT) is None
