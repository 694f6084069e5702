"""A log without files: it answers for what a store has, and its files are all there before its first record."""

from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, append_records, open_directory

from kpystorage import names, producer_snapshot
from kpystorage.directory import LogDirectory
from kpystorage.errors import CorruptFile, DiskFailure, NotMade
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.producer_snapshot import SnapshotEntry
from kpystorage.sim_disk import SimDisk
from kpystorage.unmade import LogStart, begin_unmade, finish, making

TIERED = LogConfig(is_tiered=True)
EPOCHS = [(0, 0), (3, 80)]
SNAPSHOT = producer_snapshot.render([SnapshotEntry(7, 0, 9, 99, 0, NOW_MS, 0, -1)])
START = LogStart(100, 0, EPOCHS, SNAPSHOT)


class Unmade:
    """A log without files in an empty directory."""

    def __init__(self, start: LogStart = START) -> None:
        self.disk = SimDisk(Random(1))
        self.disk.make_directory(PATH)
        self.disk.synchronize_directory("/")
        self.directory = open_directory(self.disk, config=TIERED)
        self.log = Log(self.directory, "t", 0, TOPIC_ID, TIERED)
        self.needs = 0
        begin_unmade(self.log, start, NOW_MS, self.need)

    def need(self) -> None:
        self.needs += 1

    def make(self) -> None:
        made = making(self.log)
        made.run()
        finish(self.log, made, NOW_MS)


def reopened(disk: SimDisk) -> LogDirectory:
    return open_directory(disk, config=TIERED)


def test_it_answers_for_offsets_epochs_and_producers() -> None:
    of = Unmade()
    assert (of.log.log_start_offset, of.log.local_log_start_offset, of.log.end.offset, of.log.size) == (0, 100, 100, 0)
    assert of.log.epochs.entries() == EPOCHS
    assert list(of.log.producers.producers) == [7]
    assert of.log.offset_for_timestamp(0) is None
    assert [name for name in of.disk.list_directory(PATH) if name.startswith("t-")] == []
    assert of.needs == 0


def test_whatever_needs_files_is_refused_and_asks_for_them() -> None:
    of = Unmade()
    for use in (
        lambda: append_records(of.log, 1),
        lambda: of.directory.promise_log_start(of.log, 50),
        lambda: of.log.active.log.descriptor(),
    ):
        before = of.needs
        with pytest.raises(NotMade):
            use()
        assert of.needs > before
    assert of.log.end.offset == 100
    assert of.directory.failure is None


def test_it_goes_on_where_it_was_when_it_has_its_files() -> None:
    of = Unmade()
    of.make()
    append_records(of.log, 3, leader_epoch=9)
    of.log.flush()
    again = reopened(of.disk.after_power_failure()).logs["t", 0].open()
    assert (again.log_start_offset, again.local_log_start_offset, again.end.offset) == (0, 100, 103)
    assert again.epochs.entries() == [*EPOCHS, (9, 100)]
    assert list(again.producers.producers) == [7]


def test_gathered_appends_are_refused_at_once() -> None:
    of = Unmade()
    of.disk.gathering.is_on = True
    with pytest.raises(NotMade):
        append_records(of.log, 1)
    assert of.disk.gathering.settle() == []


@pytest.mark.parametrize("is_power", [True, False])
def test_a_crash_leaves_no_log_or_all_of_its_files(*, is_power: bool) -> None:
    for call in range(1, 100):
        of = Unmade()
        of.disk.crash_at = of.disk.calls + call
        try:
            of.make()
        except BaseException:
            directory = reopened(of.disk.after_power_failure() if is_power else of.disk.after_process_death())
            for log in directory.logs.values():
                assert log.open().end.offset == 100
                assert log.epochs.entries() == EPOCHS
                assert list(log.producers.producers) == [7]
        else:
            break
    assert call > 5


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_crash_after_appends_leaves_producers_and_epochs_with_each_record(*, is_flushed: bool) -> None:
    for seed in range(40):
        of = Unmade()
        of.disk._rng = Random(seed)
        of.make()
        append_records(of.log, 3, leader_epoch=9)
        assert of.log in of.directory.rolled, "it is flushed soon"
        if is_flushed:
            of.log.flush()
        left = reopened(of.disk.after_power_failure())
        if not is_flushed and ("t", 0) not in left.logs:
            continue
        again = left.logs["t", 0].open()
        assert left.loss_of(again) is None
        if is_flushed or again.end.offset > 100:
            assert again.epochs.entries()[:2] == EPOCHS
            assert list(again.producers.producers) == [7]
            assert again.end.offset in ((103,) if is_flushed else range(100, 104))


def test_a_start_that_no_epoch_shows_is_on_the_disk_with_the_files() -> None:
    of = Unmade(LogStart(100, 40, [(3, 10)], None))
    of.make()
    of.log.flush()
    assert reopened(of.disk.after_power_failure()).logs["t", 0].open().log_start_offset == 40
    of = Unmade(LogStart(100, 100, [], None))
    of.make()
    of.log.flush()
    again = reopened(of.disk.after_power_failure()).logs["t", 0].open()
    assert (again.log_start_offset, again.end.offset) == (100, 100)


def test_a_damaged_snapshot_is_refused_before_anything_is_done() -> None:
    with pytest.raises(CorruptFile):
        Unmade(START._replace(producer_snapshot=SNAPSHOT[:-1]))


def test_a_disk_that_fails_takes_the_directory_offline() -> None:
    of = Unmade()
    of.disk.fail_at = of.disk.calls + 3
    with pytest.raises(DiskFailure):
        of.make()
    assert of.directory.failure is not None


def test_a_clean_stop_leaves_nothing_of_it() -> None:
    of = Unmade()
    of.directory.close()
    assert [name for name in of.disk.list_directory(PATH) if name.startswith("t-")] == []
    assert ("t", 0) not in reopened(of.disk).recovery_points
    assert names.RECOVERY_POINTS in of.disk.list_directory(PATH)
