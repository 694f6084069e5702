"""Swapping compacted segments in: what the open log says afterwards, who notices, what a start makes of a rest."""

from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, all_bytes, append, open_directory

from kpystorage import names
from kpystorage.compaction.cleaner import clean
from kpystorage.compaction.swap import discard, swap_in
from kpystorage.compaction.task import CleanedSegments, CleanerConfig, LogToClean
from kpystorage.disk import DescriptorsExhausted
from kpystorage.errors import DiskFailure, TooManyOpenFiles
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk, MemoryFile
from kpystorage.recovery import Shutdown
from kpystorage.scan import batches
from kpystorage.sim_disk import SimDisk
from kpywire.record import Record, build_batch, read_records

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, cleanup_delete=False, cleanup_compact=True)


def keyed_log(count: int = 30, keys: int = 3, first: bytes = b"key 0") -> Log:
    """A log of single records whose keys come again and again, in segments of two."""
    log = open_directory(config=CONFIG).create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    for number in range(count):
        if number % 2 == 0:
            log.roll(NOW_MS)
        record = Record(
            timestamp=NOW_MS + number, key=b"key %d" % (number % keys) if number else first, value=b"%d" % number
        )
        append(log, build_batch([record], base_offset=number, partition_leader_epoch=0))
    return log


def groups_of(log: Log) -> list[CleanedSegments]:
    """The groups that a cleaner makes of all but the active segment."""
    task = LogToClean(
        log.path, log.name, tuple(log.base_offsets[:-1]), 0, log.active.base_offset, log.end.offset, {}, CONFIG
    )  # fmt: skip
    return list(clean(log.directory.disk, task, CleanerConfig(dedupe_buffer_bytes=1 << 16), NOW_MS, lambda _size: None))


def compact(log: Log) -> None:
    """A whole pass."""
    for group in groups_of(log):
        swap_in(log, group, NOW_MS)


def values(log: Log) -> list[bytes | None]:
    """The values that a reader gets."""
    return [record.value for record in read_records(all_bytes(log))]


def files(log: Log, *suffixes: str) -> list[str]:
    return [name for name in sorted(log.directory.disk.list_directory(log.path)) if name.endswith(suffixes)]


def test_readers_get_the_newest_of_each_key_and_all_that_is_still_written_to() -> None:
    log = keyed_log()
    active = log.active.base_offset
    compact(log)
    assert values(log) == [b"%d" % number for number in range(active - 3, 30)]


def test_the_open_log_is_what_a_start_would_find() -> None:
    log = keyed_log()
    compact(log)
    directory = log.directory
    before = [(segment.base_offset, segment.size, segment.max_timestamp) for segment in log.segments]
    end, size, found, bases = log.end, log.size, values(log), list(log.base_offsets)
    directory.close()
    again = open_directory(directory.disk, config=CONFIG).logs["t", 0].open()
    assert [(segment.base_offset, segment.size, segment.max_timestamp) for segment in again.segments] == before
    assert (again.end, again.size, values(again), again.base_offsets) == (end, size, found, bases)


def test_records_are_appended_behind_as_if_nothing_had_been() -> None:
    log = keyed_log()
    compact(log)
    append(
        log, build_batch([Record(timestamp=NOW_MS, key=b"new", value=b"30")], base_offset=30, partition_leader_epoch=0)
    )
    assert values(log)[-1] == b"30"
    assert log.end.offset == 31


def test_a_reader_in_the_middle_of_an_old_segment_finishes_it_and_goes_on_in_the_new_one() -> None:
    log = keyed_log()
    held = log.read(0, 1 << 20, log.end, min_one_batch=True)
    assert held is not None
    compact(log)
    log.directory.delete_due_files(NOW_MS + CONFIG.file_delete_delay_ms + 1, at_most=1000)
    assert [record.value for record in read_records(held.read())][:2] == [b"0", b"1"]
    following = log.read(2, 1 << 20, log.end, min_one_batch=True)
    assert following is not None
    assert next(iter(read_records(following.read()))).offset >= log.active.base_offset - 3


def test_old_files_stay_until_their_time_is_over_and_snapshots_go_with_segments_that_have_no_successor() -> None:
    log = keyed_log()
    bases = list(log.base_offsets)
    compact(log)
    assert len(files(log, names.LOG + names.DELETED)) == len(bases) - 1
    gone = set(bases) - set(log.base_offsets)
    assert gone
    assert not gone & set(log.snapshots.offsets)
    assert set(log.base_offsets[1:]) <= set(log.snapshots.offsets)
    log.directory.delete_due_files(NOW_MS + CONFIG.file_delete_delay_ms + 1, at_most=1000)
    assert not files(log, names.DELETED, names.SWAP, names.CLEANED)


def test_a_flush_that_was_under_way_and_one_that_comes_after_do_not_miss_the_old_segments() -> None:
    log = keyed_log()
    flush = log.begin_flush()
    assert flush is not None
    compact(log)
    flush.run()
    log.finish_flush(flush)
    log.truncate_to(29, NOW_MS)
    log.flush()
    assert log.recovery_point == 29


def test_a_log_that_is_cut_or_let_go_of_says_so_to_whoever_compacts_it() -> None:
    for change in (
        lambda log: log.truncate_to(20, NOW_MS),
        lambda log: log.truncate_fully_and_start_at(5, NOW_MS),
        lambda log: log.abandon(),
        lambda log: log.directory.mark(log),
    ):
        log = keyed_log()
        notified: list[str] = []
        log.stop_compacting = lambda notified=notified: notified.append("stop")  # type: ignore[misc]
        change(log)
        assert notified == ["stop"]
        assert log.stop_compacting is None


def test_no_segment_is_deleted_while_a_pass_is_under_way() -> None:
    log = keyed_log()
    log.advance_log_start(20)
    log.stop_compacting = lambda: None
    assert log.delete_old_segments(NOW_MS, 30) == 0
    log.stop_compacting = None
    assert log.delete_old_segments(NOW_MS, 30) > 0


def test_a_cut_below_what_was_compacted_lowers_the_checkpoint_on_disk() -> None:
    log = keyed_log()
    directory = log.directory
    directory.cleaner_offsets["t", 0] = 25
    log.truncate_to(10, NOW_MS)
    assert directory.cleaner_offsets["t", 0] == 10
    assert directory.disk.read(f"{PATH}/{names.CLEANER_OFFSETS}") == b"0\n1\nt 0 10\n"


def test_segments_that_are_not_there_any_more_are_not_swapped() -> None:
    log = keyed_log()
    groups = groups_of(log)
    before = files(log, "")
    with pytest.raises(ValueError, match="no segments"):
        swap_in(log, CleanedSegments((1,), (1,)), NOW_MS)
    with pytest.raises(ValueError, match="still written to"):
        swap_in(log, CleanedSegments(tuple(log.base_offsets), (0,)), NOW_MS)
    assert files(log, "") == before
    discard(log.directory.disk, log.folder)
    assert groups
    assert not files(log, names.CLEANED)


def test_without_descriptors_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    log = keyed_log()
    found = values(log)
    again = open_directory(closed(log), config=CONFIG).logs["t", 0].open()
    group = groups_of(again)[0]
    before = files(again, "")

    def exhausted(_file: object) -> int:
        raise DescriptorsExhausted(24, "Too many open files", "somewhere")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFile, "size", exhausted)
        with pytest.raises(TooManyOpenFiles):
            swap_in(again, group, NOW_MS)
    assert again.directory.failure is None
    assert (files(again, ""), values(again)) == (before, found)


def closed(log: Log) -> MemoryDisk:
    """The disk of a log after a clean stop."""
    disk = log.directory.disk
    assert isinstance(disk, MemoryDisk)
    log.directory.close()
    return disk


def test_an_offline_directory_is_left_alone() -> None:
    log = keyed_log()
    group = groups_of(log)[0]
    log.directory.fail(OSError(5, "gone"))
    with pytest.raises(DiskFailure):
        swap_in(log, group, NOW_MS)
    assert files(log, names.CLEANED)


def test_a_copy_of_a_compacted_log_keeps_its_gaps_when_the_power_fails_right_after_it_became_the_log() -> None:
    source = keyed_log(first=b"alone")  # which stays, with a gap behind it
    compact(source)
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    directory = open_directory(disk, config=CONFIG)
    copy = directory.create_future_log(source, TOPIC_ID, CONFIG, NOW_MS)
    for segment in source.segments:
        for _, _, data in batches(segment.log, 0, segment.size):
            append(copy, bytes(data))
    directory.promote(copy)
    again = open_directory(disk.after_power_failure(), config=CONFIG)
    assert again.shutdown is Shutdown.UNCLEAN
    assert values(again.logs["t", 0].open()) == values(source)


def left_by(suffixes: dict[int, str], old: tuple[int, ...] = (0, 2)) -> MemoryDisk:
    """A log of eight records whose first two segments, of which ``old`` are left, were compacted into one."""
    log = keyed_log(8)
    disk = log.directory.disk
    assert isinstance(disk, MemoryDisk)
    log.flush()
    log.directory.write_checkpoint(names.RECOVERY_POINTS, log.directory.render_recovery_points())
    assert log.base_offsets == [0, 2, 4, 6]
    task = LogToClean(log.path, log.name, (0, 2), 0, 4, log.end.offset, {}, CONFIG)
    groups = list(clean(disk, task, CleanerConfig(dedupe_buffer_bytes=1 << 16), NOW_MS, lambda _size: None))
    assert groups == [CleanedSegments((0, 2), (0,))]
    for position, kind in enumerate((names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)):
        path = f"{log.path}/{names.segment_file(0, kind)}"
        disk.rename(path + names.CLEANED, path + suffixes[position])
    for base in (0, 2):
        if base not in old:
            for kind in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
                path = f"{log.path}/{names.segment_file(base, kind)}"
                disk.rename(path, path + names.DELETED)
    log.directory.abandon()
    return disk


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_start_undoes_a_swap_of_which_a_cleaned_file_is_left(renamed: int) -> None:
    suffixes = {number: names.SWAP if number < renamed else names.CLEANED for number in range(3)}
    log = open_directory(left_by(suffixes), config=CONFIG).logs["t", 0].open()
    assert values(log) == [b"%d" % number for number in range(8)]
    assert log.base_offsets == [0, 2, 4, 6]
    assert not files(log, names.SWAP, names.CLEANED)


@pytest.mark.parametrize("old", [(0, 2), (2,), ()])
def test_a_start_completes_a_swap_of_which_no_cleaned_file_is_left(old: tuple[int, ...]) -> None:
    log = open_directory(left_by(dict.fromkeys(range(3), names.SWAP), old), config=CONFIG).logs["t", 0].open()
    assert values(log) == [b"%d" % number for number in range(1, 8)]
    assert log.base_offsets == [0, 4, 6]
    assert not files(log, names.SWAP, names.CLEANED, names.DELETED)
