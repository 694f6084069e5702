"""Old records are compared with their checksums before they are sent; what is damaged is known from then on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_making import NOW_MS, TOPIC_ID, append, make_batch, open_directory

from kpystorage import checked_reads
from kpystorage.checked_reads import CheckedReads
from kpystorage.directory import LogDirectory
from kpystorage.errors import CorruptLog, CorruptRecord
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.log_slice import LogSlice
from kpystorage.real_disk import RealDisk

BATCHES = 4


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    return open_directory(RealDisk(), str(tmp_path))


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    """Two segments, of which the first has batches of offsets 0 to 1, 2 to 3 and so on."""
    log = directory.create_log("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    for _ in range(BATCHES):
        append(log, make_batch(log.end.offset, 2))
    log.roll(NOW_MS)
    append(log, make_batch(log.end.offset, 2))
    return log


def flip(log: Log, position: int) -> None:
    path = Path(log.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def read(log: Log, offset: int) -> LogSlice:
    found = log.read(offset, 1 << 20, log.end, min_one_batch=True)
    assert found is not None
    return found


def checked(found: LogSlice, most_bytes: int = 1 << 20) -> tuple[int, str]:
    outcome = found.check(found.position, most_bytes)
    found.note(found.position, outcome)
    return outcome.end, outcome.trouble


def test_checked_stretches_are_not_checked_again(log: Log) -> None:
    found = read(log, 0)
    assert found.cold
    assert found.whole_until(0) == 0
    assert checked(found) == (found.length, "")
    assert read(log, 2).whole_until(found.length // BATCHES) == found.length


def test_a_check_ends_at_a_batch(log: Log) -> None:
    found = read(log, 0)
    assert checked(found, most_bytes=1) == (found.length // BATCHES, "")


def test_a_damaged_batch_is_logged_once_and_its_readers_get_an_error(log: Log, directory: LogDirectory) -> None:
    lines: list[str] = []
    directory.report = lines.append
    size = log.segments[0].size // BATCHES
    flip(log, 2 * size + 70)
    found = read(log, 0)
    assert checked(found) == (2 * size, "the batch of offsets 4 to 5 is damaged")
    assert checked(read(log, 0))[0] == 2 * size
    place = f"{log.segments[0].log.path}, byte {2 * size}"
    what = "the batch of offsets 4 to 5 is damaged; its readers get CORRUPT_MESSAGE"
    assert lines == [f"{place}: {what}. What is damaged says: kpybroker check {log.path}"]
    assert sum(segment.checks.damaged_places for segment in log.segments if segment.checks is not None) == 1
    assert read(log, 0).length == 2 * size
    with pytest.raises(CorruptRecord, match="offsets 4 to 5 is damaged"):
        read(log, 4)
    assert read(log, 6).length == size


def test_a_batch_that_follows_a_later_one_is_damaged(log: Log) -> None:
    size = log.segments[0].size // BATCHES
    flip(log, size + 6)  # an offset of 256 more
    assert checked(read(log, 0)) == (2 * size, "a batch of offset 4 follows offset 259")


def test_a_broken_length_is_not_passed_over(log: Log) -> None:
    size = log.segments[0].size // BATCHES
    flip(log, size + 8)
    assert checked(read(log, 0)) == (size, "no batch begins behind offset 1")
    with pytest.raises(CorruptRecord, match="no batch begins here"):
        read(log, 4)


def test_a_batch_cut_off_by_the_end_of_a_read_is_nobodys_damage(log: Log) -> None:
    size = log.segments[0].size // BATCHES
    found = log.read(0, 2 * size + size // 2, log.end, min_one_batch=True)
    assert found is not None
    assert checked(found) == (found.length, "")
    assert read(log, 0).whole_until(0) == 2 * size  # the rest of that batch was not read


def test_a_reader_goes_on_between_batches_though_others_read_elsewhere(log: Log) -> None:
    size = log.segments[0].size // BATCHES
    found = read(log, 0)
    checked(found, most_bytes=1)
    assert checked(read(log, 6)) == (BATCHES * size, "")
    assert found.whole_until(size - 10) == size
    assert found.whole_until(size) == size


@pytest.mark.parametrize("field", [9, 16], ids=["length", "magic"])
def test_a_tail_that_breaks_off_after_a_clean_stop_is_neither_cut_nor_passed_over(
    directory: LogDirectory, tmp_path: Path, field: int
) -> None:
    log = directory.create_log("u", 0, TOPIC_ID, LogConfig(), NOW_MS)
    for _ in range(BATCHES):
        append(log, make_batch(log.end.offset, 2))
    directory.close()
    path = tmp_path / "u-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[2 * len(data) // BATCHES + field] ^= 1
    path.write_bytes(data)
    again = open_directory(RealDisk(), str(tmp_path))
    with pytest.raises(CorruptLog, match="damaged, though the last stop was clean"):
        again.logs["u", 0].open()
    again.close()
    assert path.read_bytes() == bytes(data)


def test_truncated_stretches_are_checked_again() -> None:
    reads = CheckedReads(lambda _: None)
    reads.note("f", 0, 100, "", 100)
    reads.note("f", 100, 100, "is damaged", 100)
    reads = reads.cut(50)
    assert (reads.whole_until(0), reads.trouble_at(100), reads.limit(0, 200)) == (50, "", 200)


def test_a_reader_of_truncated_records_reports_no_damage_in_later_ones(log: Log) -> None:
    """A thread reads on while a follower cuts its log and takes over what the leader has instead."""
    found = read(log, 2)
    log.truncate_to(4, NOW_MS)
    outcome = found.check(found.position, 1 << 20)
    assert outcome.trouble
    while log.end.offset < 10:
        append(log, make_batch(log.end.offset, 2))
    log.roll(NOW_MS)
    found.note(found.position, outcome)
    assert len(read(log, 4)) == len(read(log, 2)) - len(make_batch(0, 2))


def test_memory_is_bounded_by_the_window(log: Log) -> None:
    assert checked_reads.check(log.segments[0].log, 0, 30, 1 << 20) == (30, "", 0)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.booleans()), max_size=40), st.integers(0, 90))
def test_checked_stretches_equal_the_read_ones_from_any_start(read: list[tuple[int, int, bool]], position: int) -> None:
    reads, known = CheckedReads(lambda _: None), set[int]()
    for start, length, is_cut in read:
        if is_cut:
            reads = reads.cut(start)
            known = {place for place in known if place < start}
        else:
            reads.note("f", start, start + length, "", start + length)
            known |= set(range(start, start + length))
    until = reads.whole_until(position)
    assert set(range(position, until)) <= known
    assert until not in known


def test_the_shortest_of_too_many_checked_stretches_is_dropped() -> None:
    reads = CheckedReads(lambda _: None)
    for number in range(checked_reads.MOST_STRETCHES + 1):
        start = 1000 * number
        reads.note("f", start, start + 100 - number, "", start + 100 - number)
    last = 1000 * checked_reads.MOST_STRETCHES
    assert reads.whole_until(last) == last
    assert reads.whole_until(0) == 100
