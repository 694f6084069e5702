"""A page cache that is gone though the machine runs on: the file system went down and came back, an fsync failed and
its pages were dropped, files inside a partition were replaced. What is there no more is noticed, said, and not served.
"""

import errno
from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, all_bytes, append_records, open_directory

from kpystorage import scan
from kpystorage.directory import LogDirectory
from kpystorage.errors import DiskFailure
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300, retention_ms=-1)


def filled(seed: int = 1, records: int = 100) -> tuple[SimDisk, LogDirectory]:
    """A directory with a log of some segments; its names are durable, the content of its files is not."""
    disk = SimDisk(Random(seed))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    directory = open_directory(disk, config=CONFIG)
    log = directory.create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    for _ in range(records):
        append_records(log, 1)
    disk.synchronize_directory(log.path)
    disk.synchronize_directory(PATH)
    return disk, directory


def reopened(disk: SimDisk, lines: list[str] | None = None) -> tuple[LogDirectory, Log]:
    directory = open_directory(disk, config=CONFIG, report=(lines if lines is not None else []).append)
    return directory, directory.logs["t", 0].open()


@pytest.mark.parametrize("seed", range(20))
def test_a_file_system_that_was_down_is_recovered_as_after_a_power_failure(seed: int) -> None:
    disk, directory = filled(seed)
    before = all_bytes(directory.logs["t", 0])
    again, log = reopened(disk.after_remount())
    assert again.shutdown is Shutdown.UNCLEAN
    assert before.startswith(all_bytes(log))  # no hole, and nothing that was not written
    append_records(log, 1)


def test_records_lost_by_a_failed_fsync_are_found_at_the_next_start() -> None:
    for seed in range(20):
        disk, directory = filled(seed)
        log = directory.logs["t", 0]
        before = all_bytes(log)
        disk.loses_pages = lambda: True
        with pytest.raises(DiskFailure, match="simulated"):
            log.flush()
        disk.loses_pages = lambda: False
        again, log = reopened(disk.after_process_death())
        assert again.shutdown is Shutdown.UNCLEAN
        assert before.startswith(all_bytes(log))
        append_records(log, 1)


def test_a_failed_fsync_drops_what_was_written_since_the_last_one() -> None:
    disk = SimDisk(Random(3))
    file = disk.create("/file")
    file.pwrite(b"kept", 0)
    file.fsync()
    lost = 0
    for _ in range(20):
        file.pwrite(b"gone", 4)
        disk.loses_pages = lambda: True
        with pytest.raises(OSError) as failure:
            file.fsync()
        assert failure.value.errno == errno.EIO
        disk.loses_pages = lambda: False
        file.fsync()  # says nothing of what was lost
        assert disk.read("/file").startswith(b"kept")
        lost += disk.read("/file") != b"keptgone"
        file.truncate(4)
        file.fsync()
    assert lost > 5


def holed(how: str) -> tuple[SimDisk, Log, int]:
    """A log after a clean stop of which a sealed segment was spoilt then; where the gap begins."""
    disk, directory = filled()
    log = directory.logs["t", 0]
    bases = list(log.base_offsets)
    assert len(bases) > 4
    path = log.segments[1].log.path
    directory.close()
    if how == "emptied":
        disk.file(path).truncate(0)
    elif how == "zeros":
        size = disk.file(path).size()
        disk.file(path).truncate(0)
        disk.file(path).truncate(size)
    elif how == "shorter":
        whole = next(size for size in batch_ends(disk, path) if size > 1000)
        disk.file(path).truncate(whole)
    elif how == "missing":
        disk.unlink(path)
    return disk, log, bases[1]


def batch_ends(disk: SimDisk, path: str) -> list[int]:
    return [at + header.size for at, header in scan.headers(disk.file(path), 0, disk.file(path).size())]


@pytest.mark.parametrize("how", ["emptied", "zeros", "shorter", "missing"])
def test_segments_that_do_not_follow_one_another_are_noticed_after_a_clean_stop(how: str) -> None:
    disk, before, base = holed(how)
    again, log = reopened(disk)
    assert again.shutdown is Shutdown.CLEAN
    loss = again.loss_of(log)
    assert loss is not None
    assert base <= loss.offset < loss.following == before.base_offsets[2]
    assert (loss.end_offset, loss.is_cut) == (100, False)
    assert again.loss_of(log) == loss, "until it is settled"
    again.close()
    assert open_directory(disk, config=CONFIG, recover=False).shutdown is not Shutdown.CLEAN


def test_a_log_that_is_whole_lacks_nothing_however_its_writer_ended() -> None:
    for end in ("clean", "died", "power"):
        disk, directory = filled()
        if end == "clean":
            directory.close()
        disk.synchronize_all(PATH)
        found = disk.after_power_failure() if end == "power" else disk.after_process_death()
        again, log = reopened(found)
        assert again.loss_of(log) is None
        again.close()
        assert open_directory(found, config=CONFIG, recover=False).shutdown is Shutdown.CLEAN


def test_the_end_that_is_missing_of_what_was_flushed_is_noticed() -> None:
    disk, directory = filled()
    log = directory.logs["t", 0]
    last = log.active.base_offset
    path = log.active.log.path
    directory.close()
    disk.file(path).truncate(0)
    again, log = reopened(disk)
    loss = again.loss_of(log)
    assert loss is not None
    assert (loss.offset, loss.following, loss.is_cut) == (last, 100, True)


def test_gaps_of_a_compacted_topic_are_no_losses_but_a_file_shorter_than_its_indexes_is_one() -> None:
    for how, is_lost in (("missing", False), ("emptied", True), ("zeros", True)):
        disk, _, _ = holed(how)
        again, log = reopened(disk)
        log.configure(CONFIG._replace(cleanup_compact=True))
        assert (again.loss_of(log) is not None) == is_lost, how


def test_below_where_it_was_cleaned_a_log_may_have_gaps() -> None:
    disk, _, _ = holed("missing")
    directory = open_directory(disk, config=CONFIG)
    directory.cleaner_offsets["t", 0] = 90
    assert directory.loss_of(directory.logs["t", 0].open()) is None


def test_a_damaged_index_or_batch_is_no_loss() -> None:
    for suffix, spoil in ((".index", lambda size: (size - 4, b"\x7f")), (".log", lambda size: (size - 90, b"\xff"))):
        disk, directory = filled()
        path = directory.logs["t", 0].segments[1].log.path.removesuffix(".log") + suffix
        directory.close()
        position, data = spoil(disk.file(path).size())
        disk.file(path).pwrite(data, position)
        again, log = reopened(disk)
        assert again.loss_of(log) is None, suffix


def test_recovery_says_what_was_lost() -> None:
    disk, directory = filled()
    log = directory.logs["t", 0]
    emptied = log.segments[1]
    first, following = log.base_offsets[1:3]
    disk.file(emptied.log.path).truncate(0)
    disk.synchronize_all(PATH)
    lines: list[str] = []
    again, log = reopened(disk.after_remount(), lines)
    assert log.end.offset == first
    assert (
        f"t-0: records from offset {first} up to {following} are missing, which were never flushed; it ends at {first} "
        "now, and what followed them, up to offset 100, is removed"
    ) in lines
    assert again.loss_of(log) is not None
    append_records(log, 1)
