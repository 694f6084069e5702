"""A view of a log directory shows what its broker would send, changes nothing, and stands what the broker does beside
it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_making import (
    NOW_MS,
    PATH,
    TOPIC_ID,
    append,
    append_records,
    headers_of_whole,
    make_batch,
    make_marker,
    open_directory,
)

from kpystorage import checkpoint, names
from kpystorage.directory import LogDirectory
from kpystorage.disk import Disk
from kpystorage.errors import CorruptRecord, OffsetOutOfRange
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpystorage.reading import DirectoryView, ReadableLog
from kpystorage.reading_disk import ReadingDisk
from kpystorage.real_disk import RealDisk
from kpywire.batch import HEADER_BYTES

SMALL = LogConfig(index_interval_bytes=300)
BATCH_BYTES = len(make_batch(0))


def view_of(log: Log, disk: Disk | None = None) -> ReadableLog:
    directory = log.directory
    return DirectoryView(disk or directory.disk, directory.path).log(log.topic, log.partition)


def seen(view: ReadableLog, offset: int, end: int | None = None, *, committed: bool = False) -> list[bytes]:
    return [bytes(batch.data) for batch in view.batches(offset, end, committed=committed)]


def sent(log: Log, offset: int, end: int) -> list[bytes]:
    """The batches that the broker's own reads give."""
    batches = []
    while offset < end:
        found = log.read(offset, 1000, log.position_of(end), min_one_batch=True)
        if found is None:
            break
        data, position = found.read(), 0
        for header in headers_of_whole(data):
            batches.append(data[position : position + header.size])
            position += header.size
            offset = header.next_offset
    return batches


def sent_committed(log: Log, offset: int, high_watermark: int) -> list[bytes]:
    """The batches that a client with ``read_committed`` keeps, as Kafka's consumer decides it."""
    stable = log.last_stable_offset(log.position_of(high_watermark)).offset
    if offset >= stable:
        return []
    waiting = sorted(log.aborted_transactions(offset, stable), key=lambda each: each.first_offset)
    kept, aborted = [], set()
    for data in sent(log, offset, stable):
        (header,) = headers_of_whole(data)
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            kept.append(data)
    return kept


# The same as the broker.

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("records"), st.integers(1, 4)),
        st.tuples(st.just("transaction"), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("start"), st.floats(0, 1)),
        st.tuples(st.just("cut"), st.floats(0.5, 1)),
        st.tuples(st.just("gap"), st.integers(1, 5)),
    ),
    max_size=40,
)


class History:
    """A log on a disk in memory, and what happened to it."""

    def __init__(self) -> None:
        self.directory = open_directory()
        self.log = self.directory.create_log("t", 0, TOPIC_ID, SMALL, NOW_MS)
        self.high_watermark = 0

    def play(self, step: tuple[Any, ...]) -> None:
        log = self.log
        match step:
            case ("records", count):
                append_records(log, count)
            case ("transaction", producer_id):
                append(log, make_batch(log.end.offset, 2, producer_id=producer_id, transactional=True))
            case ("end", producer_id, commit):
                append(log, make_marker(log.end.offset, producer_id, commit=commit))
            case ("roll",):
                log.roll(NOW_MS)
            case ("start", share):
                self.high_watermark = log.end.offset
                log.advance_log_start(int(share * log.end.offset))
                log.delete_old_segments(NOW_MS, self.high_watermark)
            case ("cut", share):
                log.truncate_to(max(int(share * log.end.offset), self.high_watermark), NOW_MS)
            case ("gap", count):
                append(log, make_batch(log.end.offset + count))
        log.producers.replicated_to(log.end.offset)

    def note_checkpoints(self, high_watermark: int | None) -> None:
        self.directory.write_checkpoint(names.LOG_STARTS, self.directory.render_log_starts())
        if high_watermark is not None:
            self.directory.high_watermarks["t", 0] = high_watermark
            self.directory.write_checkpoint(names.HIGH_WATERMARKS, self.directory.render_high_watermarks())


@given(STEPS, st.data())
def test_a_view_shows_what_the_broker_reads(steps: list[tuple[Any, ...]], data: st.DataObject) -> None:
    history = History()
    for step in steps:
        history.play(step)
    log = history.log
    history.note_checkpoints(None)
    view = view_of(log)
    assert view.start_offset == log.log_start_offset
    assert view.log_end_offset == view.end_offset == log.end.offset
    offset = data.draw(st.integers(log.log_start_offset, log.end.offset))
    end = data.draw(st.integers(log.log_start_offset, log.end.offset))
    assert seen(view, offset) == sent(log, offset, log.end.offset)
    assert seen(view, offset, end) == sent(log, offset, end)
    assert seen(view, offset, committed=True) == sent_committed(log, offset, log.end.offset)
    for outside in (log.log_start_offset - 1, log.end.offset + 1):
        with pytest.raises(OffsetOutOfRange, match=f"offset {outside} of"):
            view.batches(outside)
    history.note_checkpoints(end)
    assert seen(view_of(log), offset) == sent(log, offset, end)


def test_a_view_ends_at_the_high_watermark_unless_it_is_asked_for_more() -> None:
    history = History()
    for _ in range(5):
        append_records(history.log, 1)
    history.note_checkpoints(3)
    view = view_of(history.log)
    assert (view.high_watermark, view.end_offset, view.log_end_offset) == (3, 3, 5)
    assert len(seen(view, 0)) == 3
    assert len(seen(view, 0, view.log_end_offset)) == 5


def test_an_abort_that_is_not_in_its_index_yet_counts(tmp_path: Path) -> None:
    log = real_log(tmp_path)
    append(log, make_batch(0, 2, producer_id=1, transactional=True))
    append(log, make_marker(2, 1, commit=False))
    append_records(log, 1)
    os.truncate(log.active.transaction_index.path, 0)
    assert seen(view_of(log), 0, committed=True) == sent(log, 3, 4)


# Nothing is changed.


def real_log(path: Path) -> Log:
    """A new log in a directory that stays locked."""
    directory = open_directory(RealDisk(), str(path))
    return directory.create_log("t", 0, TOPIC_ID, SMALL, NOW_MS)


def filled(log: Log, segments: int = 3, batches: int = 5) -> Log:
    """The log, with batches of one record in several segments."""
    for number in range(segments):
        if number:
            log.roll(NOW_MS)
        for _ in range(batches):
            append_records(log, 1)
    return log


def everything(path: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """All files and directories: times, modes, contents."""
    found = {}
    for each in [path, *path.rglob("*")]:
        status = each.stat()
        content = each.read_bytes() if each.is_file() else b""
        found[str(each)] = status.st_mtime_ns, status.st_ctime_ns, status.st_mode, content
    return found


@pytest.fixture
def made_read_only() -> Iterator[Any]:
    """Takes away the permission to write from a directory and all in it; gives it back at the end."""
    changed: list[tuple[Path, int]] = []

    def make(path: Path) -> None:
        for each in [path, *path.rglob("*")]:
            changed.append((each, each.stat().st_mode))
            each.chmod(stat.S_IMODE(each.stat().st_mode) & ~0o222)

    yield make
    for path, mode in changed:
        path.chmod(stat.S_IMODE(mode))


def test_a_locked_directory_is_read_without_a_trace(
    tmp_path: Path, made_read_only: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(real_log(tmp_path))
    wanted = sent(log, 0, 15)
    made_read_only(tmp_path)
    before = everything(tmp_path)
    opened: list[int] = []
    really_open = os.open

    def noted(path: Any, flags: int, *mode: int, **options: Any) -> int:
        opened.append(flags)
        return really_open(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", noted)
    view = DirectoryView(ReadingDisk(), str(tmp_path))
    assert view.partitions() == [("t", 0)]
    assert seen(view.log("t", 0), 0) == wanted
    assert seen(view.log("t", 0), 7, committed=True) == wanted[7:]
    assert everything(tmp_path) == before
    assert opened, "files are opened another way"
    assert not [flags for flags in opened if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)], "root may write anyway"


def test_a_reading_disk_refuses_to_write(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path))
    before = everything(tmp_path)
    disk, path = ReadingDisk(), log.active.log.path
    for attempt in (
        lambda: disk.file(path).pwrite(b"x", 0),
        lambda: disk.file(path).truncate(0),
        lambda: disk.create(path),
        lambda: disk.write(path, b"x", synchronize=False),
        lambda: disk.rename(path, path + ".deleted"),
        lambda: disk.unlink(path),
        lambda: disk.make_directory(f"{log.path}/more"),
        lambda: disk.remove_directory(log.path),
        lambda: disk.set_modified(path, 0),
        lambda: disk.lock(f"{tmp_path}/{names.LOCK}"),
    ):
        with pytest.raises(OSError):
            attempt()
    assert everything(tmp_path) == before


def test_a_partition_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    filled(real_log(tmp_path))
    with pytest.raises(FileNotFoundError, match="t-1"):
        DirectoryView(ReadingDisk(), str(tmp_path)).log("t", 1)


# A broker beside it.


def test_the_next_read_has_records_appended_and_rolled_meanwhile(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path))
    view = view_of(log, ReadingDisk())
    walk = view.batches(0)
    first = next(walk)
    filled(log, segments=2)
    assert [first.header.base_offset, *(batch.header.base_offset for batch in walk)] == list(range(15))
    assert len(seen(view, 0)) == 25


def test_a_segment_that_is_being_read_may_be_deleted(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path), segments=1, batches=100)
    view = view_of(log, ReadingDisk())
    walk = view.batches(0)
    next(walk)
    log.roll(NOW_MS)
    Path(log.segments[0].log.path).unlink()
    assert len(list(walk)) == 99


def test_records_that_retention_takes_before_they_are_read_are_an_error(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path))
    view = view_of(log, ReadingDisk())
    walk = view.batches(0)
    assert [next(walk).header.base_offset for _ in range(5)] == list(range(5))
    log.advance_log_start(10)
    assert log.delete_old_segments(NOW_MS, 15) == 2
    with pytest.raises(OffsetOutOfRange, match=r"offset 5 of .* was deleted; the log begins at 10"):
        next(walk)
    assert view.start_offset == 10
    assert len(seen(view, 10)) == 5


def test_a_segment_in_the_middle_of_a_swap_is_read_under_its_passing_name(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path))
    wanted = sent(log, 0, 15)
    for suffix in (names.LOG, names.OFFSET_INDEX):
        file = Path(log.path, names.segment_file(5, suffix))
        file.rename(f"{file}{names.SWAP}")
    assert seen(view_of(log, ReadingDisk()), 3) == wanted[3:]
    Path(log.path, names.segment_file(5, names.LOG) + names.CLEANED).write_bytes(b"")
    assert seen(view_of(log, ReadingDisk()), 3) == wanted[3:5] + wanted[10:], "a swap that a start would undo"


def test_bytes_behind_the_last_whole_batch_are_not_read(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path))
    whole = sent(log, 0, 15)
    path = Path(log.active.log.path)
    for rest in (make_batch(15)[:-1], make_batch(15)[: HEADER_BYTES - 1], bytes(5000)):
        content = path.read_bytes()
        path.write_bytes(content + rest)
        view = view_of(log, ReadingDisk())
        assert view.log_end_offset == 15
        assert seen(view, 0) == whole
        path.write_bytes(content)


# Nothing is believed.


@pytest.mark.parametrize("content", [None, b"", bytes(8 * 1000), b"\xff" * 800, b"\0\0\0\1\0\0\0\7", b"\0\0\0"])
def test_an_index_that_is_missing_or_wrong_only_costs_time(tmp_path: Path, content: bytes | None) -> None:
    log = filled(real_log(tmp_path), batches=50)
    wanted = sent(log, 0, 150)
    for segment in log.segments:
        index = Path(segment.offset_index.file.path)
        if content is None:
            index.unlink()
        else:
            index.write_bytes(content)
    view = view_of(log, ReadingDisk())
    assert view.log_end_offset == 150
    for offset in (0, 49, 50, 77, 149):
        assert seen(view, offset) == wanted[offset:]


def test_zeros_behind_the_entries_of_an_index_are_none_of_them(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path), segments=1, batches=200)
    log.active.flush_indexes()
    index = Path(log.active.offset_index.file.path)
    index.write_bytes(index.read_bytes().ljust(100_000, b"\0"))
    disk = CountingDisk()
    assert len(seen(view_of(log, disk), 190)) == 10
    assert disk.read_bytes < 200 * BATCH_BYTES, "the index was of no use"


class CountingDisk(ReadingDisk):
    """Counts the bytes that are read of a segment's batches."""

    read_bytes = 0

    def file(self, path: str) -> Any:
        file = super().file(path)
        if path.endswith(names.LOG):
            outer = self
            descriptor = file.descriptor()

            class Counted:
                def pread(self, length: int, position: int) -> bytes:
                    data = descriptor.pread(length, position)
                    outer.read_bytes += len(data)
                    return data

            file.descriptor = Counted  # type: ignore[method-assign]
        return file


@pytest.mark.parametrize("segment", [0, 2])
def test_a_damaged_batch_is_an_error_and_the_ones_before_it_are_not(tmp_path: Path, segment: int) -> None:
    log = filled(real_log(tmp_path))
    path = Path(log.segments[segment].log.path)
    content = bytearray(path.read_bytes())
    content[3 * BATCH_BYTES + HEADER_BYTES + 5] ^= 1
    path.write_bytes(content)
    walk = view_of(log, ReadingDisk()).batches(5 * segment)
    assert [next(walk).header.base_offset for _ in range(3)] == [5 * segment + number for number in range(3)]
    with pytest.raises(CorruptRecord, match="the batch of offsets"):
        next(walk)


@pytest.mark.parametrize(("segment", "why"), [(0, "no batch begins here"), (2, "no batch begins at offset 13")])
def test_a_length_that_is_wrong_ends_no_read_in_silence(tmp_path: Path, segment: int, why: str) -> None:
    log = filled(real_log(tmp_path))
    path = Path(log.segments[segment].log.path)
    content = bytearray(path.read_bytes())
    content[3 * BATCH_BYTES + 8] ^= 0x70
    path.write_bytes(content)
    log.active.flush_indexes()
    view = view_of(log, ReadingDisk())
    with pytest.raises(CorruptRecord, match=why):
        seen(view, 5 * segment, 15)


def test_a_directory_without_checkpoints_is_read_from_its_first_segment_to_its_end(tmp_path: Path) -> None:
    log = filled(real_log(tmp_path))
    for name in (names.LOG_STARTS, names.HIGH_WATERMARKS):
        (tmp_path / name).unlink(missing_ok=True)
    assert len(seen(view_of(log, ReadingDisk()), 0)) == 15


def test_a_malformed_checkpoint_is_an_error(tmp_path: Path) -> None:
    filled(real_log(tmp_path))
    (tmp_path / names.HIGH_WATERMARKS).write_bytes(b"nonsense")
    with pytest.raises(checkpoint.CorruptFile, match=names.HIGH_WATERMARKS):
        DirectoryView(ReadingDisk(), str(tmp_path)).log("t", 0)


def test_a_view_works_on_any_disk() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory: LogDirectory = open_directory(disk)
    log = filled(directory.create_log("t", 0, TOPIC_ID, SMALL, NOW_MS))
    assert DirectoryView(disk, PATH).partitions() == [("t", 0)]
    assert len(seen(view_of(log), 0)) == 15
