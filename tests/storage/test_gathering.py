"""Appends that are written together are in the log for everybody at once, and all or none of them stays in a file."""

import errno
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_making import NOW_MS, TOPIC_ID, all_bytes, append_records, headers_of, make_batch, open_directory

from kpystorage import names
from kpystorage.disk import DescriptorsExhausted
from kpystorage.errors import DiskFailure, TooManyOpenFiles
from kpystorage.gathering import GatheredFile, Gathering
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300, retention_ms=-1)


class WatchedDisk(MemoryDisk):
    """Counts the writes to ``.log`` files and refuses them while ``refusal`` is set; has ``descriptors`` or not."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.refusal: OSError | None = None
        self.has_descriptors = True
        self.make_directory("/data")

    def file(self, path: str) -> Any:
        return WatchedFile(self, super().file(path))

    def create(self, path: str) -> Any:
        return WatchedFile(self, super().create(path))


class WatchedFile:
    def __init__(self, disk: WatchedDisk, file: Any) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path

    def pwrite(self, data: Any, position: int) -> None:
        if self.path.endswith(names.LOG):
            self._disk.writes += 1
            if self._disk.refusal is not None:
                self._file.pwrite(data[: len(data) // 2], position)
                raise self._disk.refusal
        self._file.pwrite(data, position)

    def descriptor(self) -> Any:
        if not self._disk.has_descriptors:
            raise DescriptorsExhausted(errno.EMFILE, "none left", self.path)
        return self._file.descriptor()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def watched(config: LogConfig = CONFIG) -> tuple[WatchedDisk, Log]:
    disk = WatchedDisk()
    return disk, open_directory(disk).create_log("t", 0, TOPIC_ID, config, NOW_MS)


def produce(log: Log, count: int = 1) -> None:
    """Append as a leader does that has no producer id to look at."""
    for _ in range(count):
        batch = make_batch(log.end.offset)
        log.epochs.assign(0, 0)
        assert log.append_batch(batch, NOW_MS, log.end.offset + 1, 0, NOW_MS)


def test_gathered_appends_are_one_write() -> None:
    disk, log = watched()
    disk.gathering.is_on = True
    produce(log, 9)
    assert disk.writes == 0
    assert disk.gathering.settle() == []
    assert disk.writes == 1
    assert disk.gathering.settle() == []
    assert disk.writes == 1
    assert log.end.offset == 9
    assert [header.base_offset for header in _headers(log)] == list(range(9))


def test_whoever_reads_meanwhile_finds_everything() -> None:
    disk, log = watched()
    disk.gathering.is_on = True
    produce(log, 3)
    found = log.read(0, 1000, log.end, min_one_batch=True)
    assert found is not None
    assert len(found.read()) == log.end.position
    produce(log, 3)
    assert log.active.log.size() == log.end.position
    assert disk.gathering.settle() == []


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["one", "many", "gather", "settle", "write on", "read", "cut", "flush"]), max_size=40))
def test_files_are_the_same_with_and_without_gathering(steps: list[str]) -> None:
    (disk, log), (_, plain) = watched(), watched()
    for step in steps:
        for each in (log, plain):
            if step in ("one", "many"):
                append_records(each, 1 if step == "one" else 7)
            elif step == "read":
                each.read(each.log_start_offset, 500, each.end, min_one_batch=True)
            elif step == "cut":
                each.truncate_to(each.end.offset // 2, NOW_MS)
            elif step == "flush":
                each.flush()
        if step in ("gather", "write on"):
            disk.gathering.is_on = step == "gather"
        elif step == "settle":
            assert disk.gathering.settle() == []
    assert disk.gathering.settle() == []
    assert log.end == plain.end
    assert all_bytes(log) == all_bytes(plain)


def test_a_failed_write_leaves_nothing_and_is_reported_once() -> None:
    disk, log = watched()
    produce(log, 2)
    size = log.end.position
    disk.gathering.is_on = True
    produce(log, 3)
    disk.refusal = OSError(errno.ENOSPC, "full")
    assert disk.gathering.settle() == [(log.active.log.path, disk.refusal)]
    assert disk.gathering.settle() == []
    assert log.active.log.size() == size


def test_a_write_that_fails_for_a_reader_fails_for_the_settling_caller_too() -> None:
    disk, log = watched()
    disk.gathering.is_on = True
    produce(log, 3)
    disk.refusal = OSError(errno.EIO, "broken")
    with pytest.raises(DiskFailure):
        log.read(0, 1000, log.end, min_one_batch=True)
    with pytest.raises(DiskFailure):
        log.read(0, 1000, log.end, min_one_batch=True)
    assert disk.gathering.settle() == [(log.active.log.path, disk.refusal)]


def test_a_file_that_lost_something_never_grows_again() -> None:
    disk = WatchedDisk()
    gathering = Gathering()
    file = GatheredFile(disk.create("/data/0.log"), gathering)
    file.append(b"kept", 0)
    gathering.is_on = True
    file.append(b"lost", 4)
    disk.refusal = OSError(errno.EIO, "broken")
    gathering.settle()
    file.truncate(8)
    assert file.size() == 4
    file.truncate(2)
    assert file.size() == 2


def test_an_append_is_refused_at_once_where_no_descriptor_is_left() -> None:
    disk, log = watched()
    produce(log)
    disk.gathering.is_on = True
    disk.has_descriptors = False
    with pytest.raises(TooManyOpenFiles):
        produce(log)
    assert log.end.offset == 1
    disk.has_descriptors = True
    produce(log)
    assert disk.gathering.settle() == []
    assert [header.base_offset for header in _headers(log)] == [0, 1]


def _headers(log: Log) -> list[Any]:
    return headers_of(all_bytes(log))
