"""With ``preallocate`` a segment has its whole size while it is written to, and of that only batches count."""

from pathlib import Path

import pytest
from log_making import NOW_MS, TOPIC_ID, append_records, headers_of_whole, open_directory

from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpystorage.real_disk import RealDisk

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300, retention_ms=-1, preallocate=True)


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    return open_directory(RealDisk(), str(tmp_path), config=CONFIG)


def created(directory: LogDirectory) -> Log:
    return directory.create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        append_records(log, 1)


def sizes(log: Log) -> list[int]:
    return [each.stat().st_size for each in sorted(Path(log.path).glob("*.log"))]


def offsets(log: Log) -> list[int]:
    found, offset = [], log.log_start_offset
    while (part := log.read(offset, 100_000, log.end, min_one_batch=True)) is not None:
        found += [header.base_offset for header in headers_of_whole(part.read())]
        offset = found[-1] + 1
    return found


def test_the_segment_that_is_written_to_has_its_whole_size_and_others_have_what_they_hold(
    directory: LogDirectory,
) -> None:
    log = created(directory)
    assert sizes(log) == [2000]
    fill(log, 30)
    held = [segment.size for segment in log.segments]
    assert len(held) > 2
    assert sizes(log) == [*held[:-1], 2000]
    assert offsets(log) == list(range(30))
    directory.close()
    assert sizes(log) == held


def test_after_the_death_of_the_process_the_log_is_what_was_appended(directory: LogDirectory, tmp_path: Path) -> None:
    log = created(directory)
    fill(log, 30)
    held = [segment.size for segment in log.segments]
    directory.abandon()
    lines: list[str] = []
    again = open_directory(RealDisk(), str(tmp_path), config=CONFIG, report=lines.append)
    log = again.logs["t", 0].open()
    assert (log.end.offset, lines) == (30, [])
    assert sizes(log) == held
    fill(log, 30)
    assert offsets(log) == list(range(60))
    held = [segment.size for segment in log.segments]
    again.close()
    assert sizes(log) == held


def test_bytes_that_are_no_batch_are_reported_also_in_room_taken_beforehand(
    directory: LogDirectory, tmp_path: Path
) -> None:
    log = created(directory)
    fill(log, 3)
    log.active.log.pwrite(b"torn", log.active.size)
    directory.abandon()
    lines: list[str] = []
    again = open_directory(RealDisk(), str(tmp_path), config=CONFIG, report=lines.append)
    assert again.logs["t", 0].open().end.offset == 3
    assert len(lines) == 1
    assert "cut off" in lines[0]


def test_truncation_gives_the_room_back(directory: LogDirectory) -> None:
    log = created(directory)
    fill(log, 5)
    log.truncate_to(2, NOW_MS)
    assert sizes(log) == [log.active.size]
    fill(log, 30)
    assert offsets(log) == list(range(32))


def test_a_disk_in_memory_takes_no_room_beforehand() -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    log = open_directory(disk).create_log("t", 0, TOPIC_ID, CONFIG._replace(segment_bytes=1 << 30), NOW_MS)
    fill(log, 3)
    status = disk.status(log.active.log.path)
    assert status is not None
    assert status.size == log.active.size
