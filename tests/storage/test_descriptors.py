"""Thousands of partitions, few open files."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_making import NOW_MS, TOPIC_ID, append_records, open_directory

from kpystorage.disk import DescriptorsExhausted
from kpystorage.errors import DiskFailure, TooManyOpenFiles
from kpystorage.log_config import LogConfig
from kpystorage.real_descriptor import RealDescriptor
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpystorage.recovery import Shutdown
from kpystorage.set_aside import set_aside_oldest

PARTITIONS_UNDER_A_LIMIT = """
import resource, sys
sys.path[:0] = sys.argv[2:]
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from log_making import *
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
disk = RealDisk(Descriptors(300))
directory = open_directory(disk, sys.argv[1])
logs = [directory.create_log("t", number, TOPIC_ID, LogConfig(), NOW_MS) for number in range(5000)]
held = []
for turn in range(2):
    for log in logs:
        append_records(log, 2)
    held += [log.read(0, 1 << 20, log.end, min_one_batch=True) for log in logs[:300]]
for log in logs[::100]:
    log.flush()
assert all(len(all_bytes(log)) == 2 * len(make_batch(0, 2)) for log in logs)
assert all(len(each.read()) == len(each) for each in held)
assert len(disk.descriptors) <= 300
directory.close()
again = open_directory(RealDisk(Descriptors(300)), sys.argv[1])
assert all(log.open().end.offset == 4 for log in again.logs.values())
print("done")
"""


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory on a file system in memory where there is one: 20 000 files are a burden to a disk."""
    place = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="kpystorage-", dir=place if os.access(place, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


def test_five_thousand_partitions_work_under_a_limit_of_1024_open_files(memory_path: Path) -> None:
    command = [sys.executable, "-c", PARTITIONS_UNDER_A_LIMIT, str(memory_path), *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr[-2000:]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to count open files")
def test_a_log_that_goes_leaves_no_file_open(tmp_path: Path) -> None:
    disk = RealDisk(Descriptors(1000))
    directory = open_directory(disk, str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    small = LogConfig(segment_bytes=1000, retention_ms=-1)
    log = directory.create_log("t", 0, TOPIC_ID, small, NOW_MS)
    for _ in range(3):
        for _ in range(20):
            append_records(log, 2)
        log.flush()
    assert len(log.segments) > 3
    directory.mark(log)
    assert len(os.listdir("/proc/self/fd")) == before
    directory.close()


def test_files_that_are_used_keep_their_descriptors(tmp_path: Path) -> None:
    disk = RealDisk(Descriptors(3))
    files = [disk.create(str(tmp_path / str(number))) for number in range(3)]
    used = files[0].descriptor()
    for number in range(10, 20):
        files[0].pwrite(b"x", number)
        disk.create(str(tmp_path / str(number)))
        assert files[0].descriptor() is used
        assert len(disk.descriptors) <= 3


def test_files_of_segments_that_are_set_aside_are_closed(tmp_path: Path) -> None:
    disk = RealDisk()
    directory = open_directory(disk, str(tmp_path))
    log = directory.create_log("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    for _ in range(3):
        append_records(log, 2)
        log.roll(NOW_MS)
    log.flush()
    oldest = log.segments[:2]
    for segment in oldest:
        for file in segment.files():
            file.pread(1, 0)
    opened = len(disk.descriptors)
    set_aside_oldest(log, 2, NOW_MS)
    assert len(disk.descriptors) <= opened - sum(len(list(segment.files())) for segment in oldest)


def test_a_descriptor_that_is_held_is_shared_by_the_file_when_it_opens_again(tmp_path: Path) -> None:
    disk = RealDisk(Descriptors(1))
    file = disk.create(str(tmp_path / "a"))
    held = file.descriptor()
    disk.create(str(tmp_path / "b"))
    disk.create(str(tmp_path / "c"))
    assert file.descriptor() is held
    number = held.fileno()
    file.release()
    del held
    with pytest.raises(OSError):
        os.fstat(number)
    assert file.size() == 0


def test_a_descriptor_that_a_thread_is_closing_is_not_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk().create(str(tmp_path / "file"))
    file.pwrite(b"whole", 0)
    read: list[bytes] = []

    def close(fd: int) -> None:
        os.close(fd)
        if not read:
            read.append(b"")
            read.append(file.pread(5, 0))  # as the loop does while a thread that was the last holder closes it

    monkeypatch.setattr(RealDescriptor.__del__, "__defaults__", (close,))
    file.drop()
    assert read == [b"", b"whole"]


def test_a_process_without_descriptors_closes_some_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk(Descriptors(100))
    for number in range(10):
        disk.create(str(tmp_path / str(number)))
    really_open = os.open
    refusals = [24]

    def refuse_once(path: str, flags: int, mode: int = 0o777) -> int:
        if refusals:
            raise OSError(refusals.pop(), "Too many open files", path)
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse_once)
    disk.file(str(tmp_path / "3")).pread(1, 0)
    last = disk.create(str(tmp_path / "last"))
    monkeypatch.undo()
    assert len(disk.descriptors) < 10
    last.pwrite(b"abc", 0)
    assert last.pread(10, 0) == b"abc"


class Refusal:
    """Refuses to open anything while ``is_on``, as a system without descriptors does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int = errno.EMFILE) -> None:
        self.is_on = False
        self.number = number
        self._really_open, self._really_list = os.open, os.listdir
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "listdir", self.listdir)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if self.is_on:
            raise OSError(self.number, os.strerror(self.number), path)
        return self._really_open(path, flags, mode)

    def listdir(self, path: str) -> list[str]:
        if self.is_on:
            raise OSError(self.number, os.strerror(self.number), path)
        return self._really_list(path)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_any_descriptor_a_log_refuses_and_its_directory_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    disk = RealDisk(Descriptors(100))
    directory = open_directory(disk, str(tmp_path))
    logs = [directory.create_log("t", partition, TOPIC_ID, LogConfig(), NOW_MS) for partition in range(2)]
    append_records(logs[0], 3)
    refusal = Refusal(monkeypatch, number)
    refusal.is_on = True
    assert not all(disk.descriptors.make_room() for _ in range(100))
    for refused in (
        lambda: append_records(logs[0], 2),
        lambda: logs[0].read(0, 1000, logs[0].end, min_one_batch=True),
        lambda: directory.create_log("t", 2, TOPIC_ID, LogConfig(), NOW_MS),
        lambda: directory.read_topic_id(directory.logs["t", 1]),
    ):
        with pytest.raises(TooManyOpenFiles):
            refused()
    assert logs[0].end.offset == 3
    assert directory.failure is None
    refusal.is_on = False
    append_records(logs[0], 2)
    append_records(directory.create_log("t", 2, TOPIC_ID, LogConfig(), NOW_MS), 1)
    assert logs[0].end.offset == 5
    directory.close()
    again = open_directory(disk, str(tmp_path))
    assert again.shutdown is Shutdown.CLEAN
    assert [log.open().end.offset for log in again.logs.values()] == [5, 0, 1]


def test_a_flush_that_had_no_descriptor_may_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk(Descriptors(100))
    directory = open_directory(disk, str(tmp_path))
    log = directory.create_log("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    append_records(log, 3, leader_epoch=1)
    flush = log.begin_flush()
    assert flush is not None
    refusal = Refusal(monkeypatch)
    refusal.is_on = True
    with pytest.raises(DescriptorsExhausted):
        flush.attempt()
    refusal.is_on = False
    flush.attempt()
    log.finish_flush(flush)
    assert log.recovery_point == 3


def test_a_missing_descriptor_for_paired_files_fails_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(Descriptors(100))
    directory = open_directory(disk, str(tmp_path))
    log = directory.create_log("t", 0, TOPIC_ID, LogConfig(flush_messages=1), NOW_MS)
    refusal = Refusal(monkeypatch)
    really_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        really_fsync(descriptor)
        refusal.is_on = True  # in the middle of the flush

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(DiskFailure):
        append_records(log, 1)
    assert directory.failure is not None


def test_a_failed_write_is_reported_to_every_later_flush_through_its_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = open_directory(RealDisk(Descriptors(100)), str(tmp_path))
    log = directory.create_log("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    append_records(log, 1)
    log.flush()
    append_records(log, 1)
    under_way = log.begin_flush()
    assert under_way is not None
    really_fsync, failures = os.fsync, [OSError(errno.EIO, "once")]

    def fsync(descriptor: int) -> None:
        really_fsync(descriptor)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="once"):
        under_way.attempt()  # in a thread, whose outcome the loop does not know yet
    with pytest.raises(DiskFailure):
        log.flush()


@pytest.mark.parametrize("in_system", [0, 5, 1_000])
def test_a_file_with_a_second_name_is_copied_before_it_is_cut(
    in_system: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(100))
    (tmp_path / "log").write_bytes(content)
    (tmp_path / "second").hardlink_to(tmp_path / "log")
    left = [in_system]
    copies = getattr(os, "copy_file_range", None)

    def copied(source: int, target: int, count: int, *places: int) -> int:
        if copies is None or not left[0]:
            raise OSError(errno.EXDEV, "not between these")
        done: int = copies(source, target, min(count, left[0]), *places)
        left[0] -= min(done, left[0])
        return done

    monkeypatch.setattr(os, "copy_file_range", copied, raising=False)
    disk = RealDisk()
    file = disk.file(str(tmp_path / "log"))
    file.truncate(60)
    file.pwrite(b"new", 60)
    assert (tmp_path / "log").read_bytes() == content[:60] + b"new"
    assert (tmp_path / "second").read_bytes() == content
