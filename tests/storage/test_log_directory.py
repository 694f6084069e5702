"""A log directory: whose it is, how it is left and found again, what a failure takes with it."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from log_making import (
    NOW_MS,
    PATH,
    TOPIC_ID,
    all_bytes,
    append,
    append_records,
    headers_of_whole,
    make_batch,
    open_directory,
)

from kpystorage import names, session
from kpystorage.directory import METADATA_TOPIC, LogDirectory
from kpystorage.disk import DescriptorsExhausted, remove_tree
from kpystorage.errors import CorruptFile, CorruptLog, DirectoryLocked, DiskFailure
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpystorage.real_disk import RealDisk
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300, retention_ms=-1)


def filled(path: Path | str, disk: RealDisk | MemoryDisk | None = None) -> LogDirectory:
    """A directory with two logs of some segments."""
    directory = open_directory(disk or RealDisk(), str(path), config=SMALL)
    for partition in range(2):
        log = directory.create_log("t", partition, TOPIC_ID, SMALL, NOW_MS)
        for _ in range(30):
            append_records(log, 2)
    return directory


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    directory = open_directory(RealDisk(), str(tmp_path))
    program = (
        "import sys; from random import Random; from kpystorage.directory import LogDirectory;"
        "from kpystorage.errors import DirectoryLocked; from kpystorage.log_config import LogConfig;"
        "from kpystorage.real_disk import RealDisk\n"
        "try: LogDirectory(sys.argv[1], RealDisk(), Random(), print, LogConfig()).open(0)\n"
        "except DirectoryLocked as error: sys.exit(7)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, env=environment, timeout=60).returncode == 7
    directory.close()
    assert subprocess.run(command, env=environment, timeout=60).returncode == 0


def test_a_second_opening_in_memory_is_refused() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = open_directory(disk)
    with pytest.raises(DirectoryLocked):
        open_directory(disk)
    directory.close()
    open_directory(disk)


def test_a_clean_stop_is_found_and_tells_the_broker_epoch(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    contents = [all_bytes(log) for log in directory.logs.values()]
    directory.close(broker_epoch=0)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 0}
    assert not (tmp_path / session.SESSION).exists()
    again = open_directory(RealDisk(), str(tmp_path), config=SMALL)
    assert again.shutdown is Shutdown.CLEAN
    assert again.previous_broker_epoch == 0
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert not any(log.is_open for log in again.logs.values())
    assert again.recovery_points == {("t", 0): 60, ("t", 1): 60}
    assert [all_bytes(log) for log in again.logs.values()] == contents
    assert again.read_topic_id(again.logs["t", 0]) == TOPIC_ID


def test_a_crash_of_the_process_is_distinguished_from_other_unclean_stops(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    filled(place).abandon()
    again = open_directory(RealDisk(), str(place), recover=False)
    assert again.shutdown is Shutdown.PROCESS_DIED
    again.abandon()

    copied = tmp_path / "copied"
    shutil.copytree(place, copied, symlinks=True)
    assert open_directory(RealDisk(), str(copied), recover=False).shutdown is Shutdown.UNCLEAN

    moved = tmp_path / "moved"
    place.rename(moved)
    assert open_directory(RealDisk(), str(moved), recover=False).shutdown is Shutdown.UNCLEAN


@pytest.mark.parametrize(
    "change",
    ["touched", "other boot", "no boot id", "other mount", "no mount id", "cut session", "stale clean marker"],
)
def test_an_uncertain_shutdown_counts_as_unclean(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path).abandon()
    if change == "touched":
        (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
        os.utime(tmp_path, ns=(1, 1))
    elif change == "other boot":
        monkeypatch.setattr(RealDisk, "boot_id", lambda _self: "another")
    elif change == "no boot id":
        monkeypatch.setattr(RealDisk, "boot_id", lambda _self: "")
    elif change == "other mount":
        monkeypatch.setattr(RealDisk, "mount_id", lambda _self, _path: "another")
    elif change == "no mount id":
        monkeypatch.setattr(RealDisk, "mount_id", lambda _self, _path: "")
    elif change == "cut session":
        path = tmp_path / session.SESSION
        path.write_bytes(path.read_bytes()[:-1])
    else:
        (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        os.utime(tmp_path / ".kafka_cleanshutdown", ns=(1, 1))
    again = open_directory(RealDisk(), str(tmp_path), config=SMALL)
    assert again.shutdown is Shutdown.UNCLEAN
    assert again.previous_broker_epoch == -1
    assert [log.end.offset for log in again.logs.values()] == [60, 60]


@pytest.mark.parametrize("removal_is_refused", [False, True])
def test_a_directory_that_failed_is_not_believed_by_the_next_start(
    tmp_path: Path, removal_is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = filled(tmp_path)

    def refuse(_self: object, *_args: object) -> None:
        raise OSError(errno.EIO, "it takes no change")

    with monkeypatch.context() as patch:
        if removal_is_refused:
            patch.setattr(RealDisk, "unlink", refuse)
        failure = directory.fail(OSError(errno.EIO, "a page was lost"))
        assert isinstance(failure, DiskFailure)
        assert directory.failure is not None
        directory.close()
    again = open_directory(RealDisk(), str(tmp_path), recover=False)
    assert again.shutdown is Shutdown.UNCLEAN


def test_a_descriptor_that_is_missing_costs_no_trust(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    directory.fail(DescriptorsExhausted(errno.EMFILE, "too many", "x"))
    directory.abandon()
    assert open_directory(RealDisk(), str(tmp_path), recover=False).shutdown is Shutdown.PROCESS_DIED


def test_a_clean_stop_of_kafka_after_a_death_of_ours_is_clean(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    directory.close()
    open_directory(RealDisk(), str(tmp_path)).abandon()
    left = (tmp_path / session.SESSION).stat().st_mtime_ns
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    os.utime(tmp_path / ".kafka_cleanshutdown", ns=(left + 1, left + 1))
    again = open_directory(RealDisk(), str(tmp_path))
    assert again.shutdown is Shutdown.CLEAN
    assert again.previous_broker_epoch == 5


def test_sigkill_in_the_middle_of_appends_loses_none_of_them(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from log_making import *; from kpystorage.real_disk import RealDisk\n"
        "log = open_directory(RealDisk(), sys.argv[1]).create_log('t', 0, TOPIC_ID, "
        "LogConfig(segment_bytes=20000, index_interval_bytes=300), NOW_MS)\n"
        "while True:\n"
        "    append_records(log, 3)\n"
        "    print(log.end.offset, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), *sys.path]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged = 0
    for line in child.stdout:
        acknowledged = int(line)
        if acknowledged >= 3000:
            child.kill()
            break
    rest = child.stdout.read().split()
    child.wait(30)
    acknowledged = int(rest[-1]) if rest else acknowledged
    again = open_directory(RealDisk(), str(tmp_path))
    assert again.shutdown is Shutdown.PROCESS_DIED
    log = again.logs["t", 0].open()
    assert acknowledged <= log.end.offset <= acknowledged + 3
    assert [header.base_offset for header in headers_of_whole(all_bytes(log))] == list(range(0, log.end.offset, 3))


def test_deleted_and_stray_directories_are_listed_and_kept(tmp_path: Path) -> None:
    gone = names.marked_directory("t", 3, 5, names.DELETE_DIRECTORY)
    stray = names.marked_directory("x-y", 0, 5, names.STRAY_DIRECTORY)
    for name in (gone, stray, "notes", "t-1", "t-01x"):
        (tmp_path / name).mkdir()
    directory = open_directory(RealDisk(), str(tmp_path))
    assert directory.leftovers == [gone]
    assert directory.strays == [stray]
    assert set(directory.logs) == {("t", 1)}


def test_a_deleted_log_leaves_at_once_and_its_files_step_by_step(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    log = directory.logs["t", 0]
    held = log.read(0, 1000, log.end, min_one_batch=True)
    assert held is not None
    before = held.read()
    name = directory.mark(log)
    assert ("t", 0) not in directory.logs
    assert names.parse_marked_directory(name) == ("t", 0, "-delete")
    assert (tmp_path / name).exists()
    assert directory.leftovers == [name]
    again = directory.create_log("t", 0, bytes(16), SMALL, NOW_MS)
    assert again.end.offset == 0
    steps = list(directory.remove(name))
    assert steps[-1] == f"{tmp_path}/{name}"
    assert len(steps) > 5
    assert directory.leftovers == []
    assert held.read() == before


def test_names_of_marked_directories_stay_within_what_a_file_system_takes() -> None:
    name = names.marked_directory("a" * 249, 12, (1 << 128) - 1, names.DELETE_DIRECTORY)
    assert len(name) == 255
    assert names.parse_marked_directory(name) is not None
    assert names.parse_partition_directory(name) is None


def test_files_set_aside_go_when_their_time_comes(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    log = directory.logs["t", 0]
    log.advance_log_start(50)
    assert log.delete_old_segments(NOW_MS, 60) > 0
    aside = list((tmp_path / "t-0").glob("*.deleted"))
    assert aside
    assert directory.delete_due_files(NOW_MS + 59_999) == 0
    assert directory.delete_due_files(NOW_MS + 60_000) == len(aside)
    assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_files_set_aside_before_a_stop_go_at_the_next_opening(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    log = directory.logs["t", 0]
    log.advance_log_start(50)
    log.delete_old_segments(NOW_MS, 60)
    start = log.log_start_offset
    directory.close()
    again = open_directory(RealDisk(), str(tmp_path), config=SMALL)
    assert again.logs["t", 0].open().log_start_offset == start
    assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_the_checkpoints_hold_what_kafka_would_find_in_them(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    directory.create_log(METADATA_TOPIC, 0, TOPIC_ID, LogConfig(), NOW_MS)
    directory.logs["t", 1].advance_log_start(3)
    directory.high_watermarks = {("t", 0): 60, ("t", 1): 58}
    directory.logs["t", 0].flush()
    for name, data in (
        (names.RECOVERY_POINTS, directory.render_recovery_points()),
        (names.LOG_STARTS, directory.render_log_starts()),
        (names.HIGH_WATERMARKS, directory.render_high_watermarks()),
    ):
        directory.write_checkpoint(name, data)
    directory.noted()
    assert (tmp_path / names.RECOVERY_POINTS).read_text() == "0\n2\nt 0 60\nt 1 0\n"
    assert (tmp_path / names.LOG_STARTS).read_text() == "0\n1\nt 1 3\n"
    assert (tmp_path / names.HIGH_WATERMARKS).read_text() == "0\n2\nt 0 60\nt 1 58\n"
    directory.abandon()
    again = open_directory(RealDisk(), str(tmp_path))
    assert again.shutdown is Shutdown.PROCESS_DIED
    assert again.high_watermarks == {("t", 0): 60, ("t", 1): 58}
    assert again.logs["t", 1].open().log_start_offset == 3


def test_a_checkpoint_rendered_before_a_truncation_is_not_written_after_it() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = filled(PATH, disk)
    log = directory.logs["t", 0]
    log.flush()
    stale = directory.render_recovery_points()
    directory.write_checkpoint(names.RECOVERY_POINTS, stale)
    stale = directory.render_recovery_points()
    log.truncate_to(10, NOW_MS)
    directory.write_checkpoint(names.RECOVERY_POINTS, stale)
    assert disk.read(f"{PATH}/{names.RECOVERY_POINTS}") == b"0\n2\nt 0 10\nt 1 0\n"


def test_a_malformed_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / names.RECOVERY_POINTS).write_text("0\n1\nt 0\n")
    with pytest.raises(CorruptFile, match=r"recovery-point-offset-checkpoint.*'t 0'"):
        open_directory(RealDisk(), str(tmp_path))


def test_a_failed_directory_goes_offline_alone() -> None:
    disk = SimDisk(Random(1))
    other = MemoryDisk()
    for each in (disk, other):
        each.make_directory(PATH)
    failing, working = filled(PATH, disk), filled(PATH, other)
    notified: list[LogDirectory] = []
    failing.on_failure = notified.append
    before = failing.logs["t", 0].end
    disk.fail_at = disk.calls + 1
    with pytest.raises(DiskFailure, match=r"/data is offline: simulated; the disk does not work: "):
        append_records(failing.logs["t", 0], 1)
    assert notified == [failing]
    assert failing.logs["t", 0].end == before
    for log in failing.logs.values():
        with pytest.raises(DiskFailure):
            append_records(log, 1)
    with pytest.raises(DiskFailure):
        failing.create_log("u", 0, TOPIC_ID, SMALL, NOW_MS)
    assert notified == [failing]
    append_records(working.logs["t", 0], 1)
    failing.close()
    assert failing.shutdown is not Shutdown.CLEAN
    assert disk.status(f"{PATH}/.kafka_cleanshutdown") is None


def test_a_disk_that_is_full_in_the_middle_of_a_write_leaves_no_part_of_the_batch() -> None:
    disk = SimDisk(Random(3))
    disk.make_directory(PATH)
    directory = filled(PATH, disk)
    log = directory.logs["t", 0]
    size = log.active.size
    disk.failure = lambda: OSError(errno.ENOSPC, "No space left on device")
    disk.fail_at = disk.calls + 1
    with pytest.raises(DiskFailure, match="No space left"):
        append(log, make_batch(log.end.offset, 10))
    assert disk.inode(log.active.log.path).data[size:] == b""


def test_flushed_data_that_is_damaged_is_never_removed(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    directory.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    last = sorted((tmp_path / "t-0").glob("*.log"))[-1]
    whole = last.read_bytes()
    first_batch = headers_of_whole(whole)[0].size
    # A bit of a record flips: the batch stays, and is reported.
    flipped = bytearray(whole)
    flipped[first_batch - 1] ^= 1
    last.write_bytes(flipped)
    lines: list[str] = []
    again = open_directory(RealDisk(), str(tmp_path), config=SMALL, report=lines.append)
    assert again.logs["t", 0].end.offset == 60
    assert any("damaged; it had been flushed" in line for line in lines)
    again.abandon()
    (tmp_path / session.SESSION).unlink()
    # The framing breaks: the log is offline, its bytes stay, and the other log works.
    broken = bytearray(whole)
    broken[first_batch + 8 : first_batch + 12] = b"\xff\xff\xff\xff"
    last.write_bytes(broken)
    lines.clear()
    again = open_directory(RealDisk(), str(tmp_path), config=SMALL, report=lines.append)
    assert any("had been flushed" in line for line in lines)
    with pytest.raises(CorruptLog):
        again.logs["t", 0].open()
    assert again.failure is None
    append_records(again.logs["t", 1], 1)
    assert last.read_bytes() == bytes(broken)
    # A clean stop does not cover it up.
    again.close()
    again = open_directory(RealDisk(), str(tmp_path), config=SMALL)
    assert again.shutdown is not Shutdown.CLEAN
    assert set(again.damaged) == {("t", 0)}
    again.mark(again.logs["t", 0])
    again.close()
    assert open_directory(RealDisk(), str(tmp_path), config=SMALL).shutdown is Shutdown.CLEAN


def test_an_old_message_format_is_refused_rather_than_cut_off(tmp_path: Path) -> None:
    from zlib import crc32

    directory = open_directory(RealDisk(), str(tmp_path))
    directory.create_log("t", 0, TOPIC_ID, SMALL, NOW_MS)
    directory.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    body = b"\x01\x00" + bytes(8) + b"\xff\xff\xff\xff" + b"\0\0\0\x03abc"
    message = bytes(8) + (len(body) + 4).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(message)
    again = open_directory(RealDisk(), str(tmp_path))
    with pytest.raises(CorruptLog, match="before v2"):
        again.logs["t", 0].open()


def test_a_log_without_its_files_begins_again_where_it_had_started() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = filled(PATH, disk)
    directory.logs["t", 0].advance_log_start(45)
    directory.close()
    for name in disk.list_directory(f"{PATH}/t-0"):
        if not name.endswith(".metadata"):
            disk.unlink(f"{PATH}/t-0/{name}")
    again = open_directory(disk, config=SMALL)
    log = again.logs["t", 0].open()
    assert (log.log_start_offset, log.end.offset) == (45, 45)
    append_records(log, 1)
    assert log.end.offset == 46


def test_a_log_whose_records_were_all_deleted_is_loaded_as_it_is() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = filled(PATH, disk)
    log = directory.logs["t", 0]
    end = log.end.offset
    log.advance_log_start(end)
    bases = list(log.base_offsets)
    directory.close()
    reported: list[str] = []
    again = open_directory(disk, config=SMALL, report=reported.append)
    log = again.logs["t", 0].open()
    assert (log.log_start_offset, log.end.offset) == (end, end)
    assert list(log.base_offsets) == bases
    assert reported == []


def test_an_empty_partition_metadata_means_that_no_id_is_known() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = filled(PATH, disk)
    directory.close()
    disk.write(f"{PATH}/t-0/partition.metadata", b"", synchronize=False)
    disk.write(f"{PATH}/t-1/partition.metadata", b"version: 0\ntopic_id: " + b"?" * 22, synchronize=False)
    again = open_directory(disk, config=SMALL)
    assert again.read_topic_id(again.logs["t", 0]) is None
    with pytest.raises(CorruptLog, match="its topic id is none"):
        again.read_topic_id(again.logs["t", 1])
    assert again.failure is None


def test_a_tree_with_a_directory_inside_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError):
        list(remove_tree(RealDisk(), str(tmp_path / "a")))
    assert (tmp_path / "a" / "b").exists()


def test_a_tree_that_somebody_else_removes_meanwhile_is_gone_all_the_same(tmp_path: Path) -> None:
    disk = RealDisk()
    for files in (0, 3):
        tree = tmp_path / str(files)
        tree.mkdir()
        for number in range(files):
            (tree / str(number)).touch()
        removal = iter(remove_tree(disk, str(tree)))
        if files:
            next(removal)
        shutil.rmtree(tree)
        assert list(removal)[-1] == str(tree)


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_too_far_from_their_segment_are_no_reason_not_to_start(clean: bool) -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = open_directory(disk, config=SMALL)
    log = directory.create_log("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    for _ in range(3):
        append_records(log, 1)
    directory.close()
    path = f"{PATH}/t-0/{0:020d}.log"
    far = [make_batch((1 << 31) + number, 1, timestamp=NOW_MS + number) for number in range(20)]
    disk.write(path, disk.read(path) + b"".join(far), synchronize=False)
    disk.unlink(path.replace(".log", ".index"))
    if not clean:
        disk.unlink(f"{PATH}/{names.CLEAN_SHUTDOWN}")
    again = open_directory(disk, config=SMALL).logs["t", 0].open()
    assert again.end.offset == (1 << 31) + 20
    found = again.read((1 << 31) + 5, 1 << 20, again.end, min_one_batch=True)
    assert found is not None
    assert int.from_bytes(found.read()[:8], "big") == (1 << 31) + 5


@pytest.mark.parametrize("clean", [True, False])
def test_a_file_with_the_name_of_a_log_is_none(tmp_path: Path, clean: bool) -> None:
    directory = filled(tmp_path)
    if clean:
        directory.close()
    else:
        directory.abandon()
    (tmp_path / "core-12345").write_bytes(b"somebody else's")
    again = open_directory(RealDisk(), str(tmp_path), config=SMALL)
    assert sorted(again.logs) == [("t", 0), ("t", 1)]
    assert again.failure is None
    again.close()


def test_a_new_log_is_not_judged_by_the_checkpoints_of_an_earlier_one_of_its_name() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = open_directory(disk, config=SMALL)
    log = directory.create_log("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for _ in range(9):
        append_records(log, 3)
    log.flush()
    log.advance_log_start(20)
    directory.write_checkpoint(names.RECOVERY_POINTS, directory.render_recovery_points())
    directory.write_checkpoint(names.LOG_STARTS, directory.render_log_starts())
    directory.high_watermarks["t", 0] = 27
    directory.write_checkpoint(names.HIGH_WATERMARKS, directory.render_high_watermarks())
    directory.mark(log)
    append_records(directory.create_log("t", 0, TOPIC_ID, SMALL, NOW_MS), 3)
    directory.abandon()  # and the machine is down before the next checkpoint
    again = open_directory(disk, config=SMALL)
    log = again.logs["t", 0].open()
    assert (log.log_start_offset, log.end.offset) == (0, 3)
    assert again.recovery_points.get(("t", 0), 0) == 0
    assert again.high_watermarks.get(("t", 0), 0) == 0  # 3 would count as committed


@pytest.mark.parametrize("dies", [False, True])
def test_after_a_clean_stop_no_checkpoint_names_a_log_that_is_gone(tmp_path: Path, *, dies: bool) -> None:
    directory = filled(tmp_path)
    offsets = {("t", 0): 60, ("t", 1): 60}
    directory.high_watermarks, directory.cleaner_offsets = dict(offsets), dict(offsets)
    for log in directory.logs.values():
        log.flush()
        log.advance_log_start(3)
    for name, data in (
        (names.RECOVERY_POINTS, directory.render_recovery_points()),
        (names.LOG_STARTS, directory.render_log_starts()),
        (names.HIGH_WATERMARKS, directory.render_high_watermarks()),
        (names.CLEANER_OFFSETS, directory.render_cleaner_offsets()),
    ):
        directory.write_checkpoint(name, data)
        assert "t 1 " in (tmp_path / name).read_text()
    directory.mark(directory.logs["t", 1])
    if dies:
        directory.abandon()
        directory = open_directory(RealDisk(), str(tmp_path))
    directory.close()
    for name in (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_OFFSETS):
        lines = (tmp_path / name).read_text().splitlines()[2:]
        assert [line.rsplit(" ", 1)[0] for line in lines] == ["t 0"], name
