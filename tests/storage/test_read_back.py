"""Bytes that were written through a closed descriptor are believed when the disk itself was asked for them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from log_making import NOW_MS, TOPIC_ID, append_records, open_directory

from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.errors import DiskFailure
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.real_descriptor import RealDescriptor
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpystorage.recovery import Shutdown

SMALL = LogConfig(segment_bytes=5_000, index_interval_bytes=100)


class Forgetful:
    """A disk that has zeros of some file, as a reader past the page cache sees it, and nobody hears of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost = ""
        self.asked: list[str] = []
        forgetful = self

        def drop_cache(descriptor: RealDescriptor, position: int, end: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor.fileno()}").readlink()
            forgetful.asked.append(path.name)
            if forgetful.lost and path.name.endswith(forgetful.lost):
                with path.open("r+b") as file:
                    file.seek(position)
                    file.write(bytes(end - position))

        monkeypatch.setattr(RealDescriptor, "drop_cache", drop_cache)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Forgetful:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to name open files")
    return Forgetful(monkeypatch)


def after_death(path: Path, config: LogConfig = SMALL) -> Log:
    """A log of several segments, whose writer died before any flush."""
    directory = open_directory(RealDisk(), str(path))
    log = directory.create_log("t", 0, TOPIC_ID, config, NOW_MS)
    for number in range(30):
        append_records(log, 4, timestamp=NOW_MS + 10 * number)
    directory.abandon()
    again = open_directory(RealDisk(), str(path), config=config)
    assert again.shutdown is Shutdown.PROCESS_DIED
    return again.logs["t", 0].open()


def test_the_first_flush_after_the_death_of_the_process_asks_the_disk_once(
    tmp_path: Path, forgetful: Forgetful
) -> None:
    log = after_death(tmp_path)
    assert len(log.segments) > 2
    log.flush()
    assert log.recovery_point == log.end.offset == 120
    stems = {name.partition(".")[0] for name in forgetful.asked}
    assert stems == {f"{each.base_offset:020d}" for each in log.segments}
    forgetful.asked.clear()
    append_records(log, 4, timestamp=NOW_MS + 1_000)
    log.flush()
    assert not any(name.endswith(names.LOG) for name in forgetful.asked)


@pytest.mark.parametrize("lost", [f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex"])
@pytest.mark.parametrize("stop", [LogDirectory.close, lambda directory: directory.logs["t", 0].flush()])
def test_records_missing_on_disk_take_the_directory_offline(
    tmp_path: Path, forgetful: Forgetful, lost: str, stop: Callable[[LogDirectory], None]
) -> None:
    log = after_death(tmp_path)
    forgetful.lost = lost
    with pytest.raises(DiskFailure, match="writes were lost without an error"):
        stop(log.directory)
    assert log.directory.failure is not None
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / names.RECOVERY_POINTS).exists()


def test_a_log_that_is_cut_while_it_is_read_back_is_no_failure(tmp_path: Path, forgetful: Forgetful) -> None:
    log = after_death(tmp_path)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate_to(50, NOW_MS)
    append_records(log, 1)
    flush.attempt()
    log.finish_flush(flush)
    assert log.recovery_point < 50
    forgetful.asked.clear()
    log.flush()
    assert log.recovery_point == log.end.offset
    assert forgetful.asked, "what the dead process wrote, and a flush that does not count has read, is asked for again"


def test_a_file_whose_descriptor_goes_before_an_fsync_is_read_back(tmp_path: Path, forgetful: Forgetful) -> None:
    disk = RealDisk(Descriptors(2))
    directory = open_directory(disk, str(tmp_path))
    logs = [directory.create_log("t", number, TOPIC_ID, LogConfig(), NOW_MS) for number in range(4)]
    for log in logs:
        append_records(log, 4)
    given_up = [log for log in logs if log.active.log.is_given_up]
    assert given_up
    for log in logs:
        log.flush()
    assert len(forgetful.asked) >= len(given_up)
    assert not any(log.active.log.is_given_up for log in given_up[:1])
    forgetful.lost = ".log"
    for log in logs:
        append_records(log, 4)
    with pytest.raises(DiskFailure):
        directory.close()


def test_descriptors_that_were_written_through_go_last(tmp_path: Path) -> None:
    disk = RealDisk(Descriptors(8))
    written = disk.create(str(tmp_path / "written"))
    written.pwrite(b"x", 0)
    descriptor = written.descriptor()
    number = descriptor.fileno()
    del descriptor
    for other in range(30):
        disk.create(str(tmp_path / str(other)))
    assert written.descriptor().fileno() == number
    assert not written.is_given_up
    written.fsync()
    for other in range(30):
        disk.create(str(tmp_path / str(other)))
    assert not written.is_given_up, "it was confirmed"


def test_an_index_that_is_new_is_flushed_through_the_descriptor_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kpystorage.transaction_index import TransactionIndexEntry

    directory = open_directory(RealDisk(), str(tmp_path))
    log = directory.create_log("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    append_records(log, 1)
    index = log.active.transaction_index
    index.append(TransactionIndexEntry(1, 0, 0, 0))
    log.unflushed.new_files.append(index.path)
    assert index.file is not None
    synced: list[object] = []
    monkeypatch.setattr(RealDescriptor, "fsync", lambda descriptor: synced.append(descriptor))
    log.flush()
    assert index.file.descriptor() in synced
