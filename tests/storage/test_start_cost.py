"""The cost of a start and a stop where there are many logs: counted in changing calls on the disk, not in time."""

from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, append_records, open_directory

from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import Folder, Inode
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk

FEW, MANY = 10, 40


class CountingDisk(SimDisk):
    """Counts its syncs."""

    syncs = 0

    def synchronize(self, node: Inode | Folder) -> None:
        self.syncs += 1
        super().synchronize(node)

    def synchronize_all(self, path: str) -> bool:
        self.syncs += 1
        return super().synchronize_all(path)


def written(logs: int) -> LogDirectory:
    """A directory with logs of three records each, nothing of it flushed."""
    disk = CountingDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    directory = open_directory(disk)
    for partition in range(logs):
        append_records(directory.create_log("t", partition, TOPIC_ID, LogConfig(), NOW_MS), 3, leader_epoch=2)
    return directory


def after_death(logs: int) -> tuple[int, LogDirectory]:
    """The changing calls of an opening after the death of the process, and the directory."""
    disk = written(logs).disk
    assert isinstance(disk, SimDisk)
    left = disk.after_process_death()
    directory = open_directory(left)
    return left.calls, directory


def test_a_start_after_the_death_of_the_process_writes_nothing_per_log() -> None:
    few, _ = after_death(FEW)
    many, directory = after_death(MANY)
    assert directory.shutdown is Shutdown.PROCESS_DIED
    assert many == few


def test_a_log_that_is_used_after_the_death_of_the_process_waits_for_no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    _, directory = after_death(FEW)
    syncs: list[object] = []
    monkeypatch.setattr(SimDisk, "synchronize", lambda _disk, node: syncs.append(node))
    monkeypatch.setattr(SimDisk, "synchronize_all", lambda _disk, path: syncs.append(path))
    for log in directory.logs.values():
        assert log.open().end.offset == 3
        assert log.epochs.entries() == [(2, 0)]
    assert syncs == []


def syncs_of_a_stop(logs: int) -> int:
    directory = written(logs)
    disk = directory.disk
    assert isinstance(disk, CountingDisk)
    before = disk.syncs
    directory.close()
    return disk.syncs - before


def test_many_logs_are_completed_by_few_syncs_at_a_clean_stop() -> None:
    assert syncs_of_a_stop(MANY) == syncs_of_a_stop(FEW)
