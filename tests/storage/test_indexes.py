"""Indexes against a plain list: every look-up, before and after writing, cutting and opening again."""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_making import NOW_MS, PATH, TOPIC_ID, append_records, headers_of, make_batch, make_log, open_directory

from kpystorage.checking.findings import Finding
from kpystorage.checking.indexes import TimeIndexCheck
from kpystorage.errors import CorruptFile
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk, MemoryFile
from kpystorage.offset_index import OffsetIndex
from kpystorage.time_index import TimeIndex, TimestampOffset
from kpystorage.transaction_index import TransactionIndex, TransactionIndexEntry

STEPS = st.lists(st.integers(1, 1000), max_size=700)
MOST_READS = 12
"""Twice as many as halving takes for 20 000 entries of which one read brings 512."""


class CountingFile(MemoryFile):
    """Counts how often it is read."""

    def __init__(self) -> None:
        disk = MemoryDisk()
        disk.create("/index")
        super().__init__(disk, "/index")
        self.reads = 0

    def pread(self, length: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(length, position)


def rare_leaps(number: int) -> int:
    return 100_000 if number % 997 > 990 else 1


@given(
    steps=STEPS,
    flushed=st.integers(0, 700),
    probes=st.lists(st.integers(-5, 400_000), max_size=10),
    cut=st.integers(0, 400_000),
)
@settings(max_examples=80, deadline=None)
def test_the_offset_index_finds_the_last_entry_at_or_below(
    steps: list[int], flushed: int, probes: list[int], cut: int
) -> None:
    file = MemoryDisk().create("/index")
    index = OffsetIndex(file, 100, 0)
    offsets, positions = [], []
    offset, position = 100, 0
    for number, step in enumerate(steps):
        offset += step
        position += step * 3
        offsets.append(offset)
        positions.append(position)
        if index.append(offset, position) or number == flushed:
            index.flush()
    check_offsets(index, offsets, positions, probes)
    index.truncate_to(cut)
    keep = len([each for each in offsets if each < cut])
    check_offsets(index, offsets[:keep], positions[:keep], probes)
    assert file.size() == keep * 8
    check_offsets(OffsetIndex(file, 100), offsets[:keep], positions[:keep], probes)


def check_offsets(index: OffsetIndex, offsets: list[int], positions: list[int], probes: list[int]) -> None:
    assert len(index) == len(offsets)
    for probe in [*probes, *offsets[-3:], *offsets[:3]]:
        number = bisect_right(offsets, probe) - 1
        expected = (offsets[number], positions[number]) if number >= 0 else (100, 0)
        assert index.lookup(probe) == expected


@pytest.mark.parametrize("step", [lambda _: 1, lambda number: 1 + number**2 // 2000, rare_leaps])
def test_a_long_index_is_searched_in_few_reads_however_its_offsets_lie(step: Callable[[int], int]) -> None:
    file = CountingFile()
    index = OffsetIndex(file, 0, 0)
    offsets = list(accumulate(step(number) for number in range(1, 20_000)))
    offsets = [offset for offset in offsets if offset < 2**31]
    for number, offset in enumerate(offsets, 1):
        if index.append(offset, number):
            index.flush()
    index.flush()
    for probe in [0, *offsets[:: len(offsets) // 100], offsets[-1] - 1]:
        file.reads = 0
        number = bisect_right(offsets, probe)
        assert index.lookup(probe) == ((offsets[number - 1], number) if number else (0, 0))
        assert file.reads <= MOST_READS


def test_a_long_index_of_even_offsets_takes_two_reads() -> None:
    file = CountingFile()
    index = OffsetIndex(file, 0, 0)
    for number in range(1, 20_000):
        if index.append(150 * number, 17_000 * number):
            index.flush()
    index.flush()
    file.reads = 0
    assert index.lookup(1_000_000) == (150 * 6666, 17_000 * 6666)
    assert file.reads == 2


@given(
    steps=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=400),
    probes=st.lists(st.integers(-5, 20_000), max_size=10),
    cut=st.integers(0, 20_000),
)
@settings(max_examples=80, deadline=None)
def test_the_time_index_keeps_only_what_is_later(steps: list[tuple[int, int]], probes: list[int], cut: int) -> None:
    file = MemoryDisk().create("/timeindex")
    index = TimeIndex(file, 0, 0)
    entries: list[TimestampOffset] = []
    timestamp, offset = 10, 0
    for later, further in steps:
        timestamp += later
        offset += further
        index.append_if_later(timestamp, offset)
        if not entries or timestamp > entries[-1].timestamp:
            entries.append(TimestampOffset(timestamp, offset))
    check_times(index, entries, probes)
    index.flush()
    index.truncate_to(cut)
    entries = [entry for entry in entries if entry.offset < cut]
    check_times(index, entries, probes)
    check_times(TimeIndex(file, 0), entries, probes)


def check_times(index: TimeIndex, entries: list[TimestampOffset], probes: list[int]) -> None:
    assert [index.entry(number) for number in range(len(index))] == entries
    for probe in probes:
        number = bisect_right([entry.timestamp for entry in entries], probe) - 1
        assert index.lookup(probe) == (entries[number] if number >= 0 else TimestampOffset(-1, 0))


def test_the_transaction_index_is_made_for_the_first_aborted_transaction() -> None:
    disk = MemoryDisk()
    index = TransactionIndex(disk, "/txnindex", exists=False)
    assert index.overlapping(0, 100) == ([], False)
    index.truncate_to(5)
    index.reset()
    assert disk.status("/txnindex") is None
    made = [
        TransactionIndexEntry(1, 0, 10, 5),
        TransactionIndexEntry(2, 5, 20, 21),
        TransactionIndexEntry(1, 30, 40, 41),
    ]
    for each in made:
        index.append(each)
    assert disk.read("/txnindex")[:34] == pack(">hqqqq", 0, 1, 0, 10, 5)
    assert list(index.entries()) == made
    assert index.overlapping(11, 25) == ([made[1]], True)
    assert index.overlapping(0, 6) == ([made[0], made[1]], True)
    assert index.overlapping(21, 100) == ([made[2]], False)
    assert index.is_sane(10)
    assert not index.is_sane(11)
    index.truncate_to(20)
    assert list(TransactionIndex(disk, "/txnindex", exists=True).entries()) == made[:1]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=300),
    st.integers(0, 1500),
    st.integers(1, 60),
)
def test_a_transaction_index_is_searched_for_what_reading_all_of_it_finds(
    steps: list[tuple[int, int]], fetch_offset: int, read: int
) -> None:
    index = TransactionIndex(MemoryDisk(), "/txnindex", exists=False)
    last_offset, made = 0, []
    for further, before in steps:
        last_offset += further
        made.append(TransactionIndexEntry(1, max(0, last_offset - before), last_offset, last_offset + 1 - before % 3))
        index.append(made[-1])
    upper_bound = fetch_offset + read
    last = next((number for number, each in enumerate(made) if each.last_stable_offset >= upper_bound), len(made))
    reach = [each for each in made[: last + 1] if each.last_offset >= fetch_offset and each.first_offset < upper_bound]
    assert index.overlapping(fetch_offset, upper_bound) == (reach, last < len(made))


def test_a_rest_of_a_transaction_index_entry_is_written_over_and_a_later_version_refused() -> None:
    disk = MemoryDisk()
    entry = TransactionIndexEntry(1, 0, 10, 5)
    TransactionIndex(disk, "/txnindex", exists=False).append(entry)
    disk.file("/txnindex").pwrite(b"torn", 34)
    index = TransactionIndex(disk, "/txnindex", exists=True)
    index.append(TransactionIndexEntry(1, 11, 20, 21))
    assert len(list(index.entries())) == 2
    disk.file("/txnindex").pwrite(b"\0\1", 0)
    with pytest.raises(CorruptFile):
        list(index.entries())


@pytest.mark.parametrize("damage", ["cut", "shifted", "foreign", "negative", "beyond", "gone"])
def test_an_index_that_points_elsewhere_is_built_anew_when_it_is_used(damage: str) -> None:
    config = LogConfig(segment_bytes=3000, index_interval_bytes=300)
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = open_directory(disk, config=config)
    log = directory.create_log("t", 0, TOPIC_ID, config, NOW_MS)
    for _ in range(60):
        append_records(log, 2)
    segments = [segment.base_offset for segment in log.segments]
    directory.close()
    path = f"{PATH}/t-0/{segments[1]:020d}.index"
    whole = disk.read(path)
    if damage == "cut":
        disk.write(path, whole[:11], synchronize=False)
    elif damage == "shifted":
        disk.write(
            path, b"".join(whole[at : at + 4] + b"\0\0\0\x07" for at in range(0, len(whole), 8)), synchronize=False
        )
    elif damage == "foreign":
        disk.write(path, b"\x7f\xff\xff\xff" * 10, synchronize=False)
    elif damage in ("negative", "beyond"):
        position = b"\xff\xff\xff\xf0" if damage == "negative" else b"\x00\x0f\xff\xff"
        disk.write(path, b"".join(whole[at : at + 4] + position for at in range(0, len(whole), 8)), synchronize=False)
    else:
        disk.unlink(path)
    again = open_directory(disk, config=config).logs["t", 0].open()
    for offset in range(120):
        found = again.read(offset, 50, again.end, min_one_batch=True)
        assert found is not None
        assert int.from_bytes(found.read()[:8], "big") == offset - offset % 2


def test_entries_come_every_so_many_bytes_and_at_the_end() -> None:
    log = make_log(LogConfig(index_interval_bytes=1000))
    for number in range(30):
        append_records(log, 1, timestamp=NOW_MS + number)
    index = log.active.offset_index
    positions = [index.entry(number)[1] for number in range(len(index))]
    size = log.active.size // 30
    every = 1000 // size + 1
    assert positions == [size * each for each in range(every, 30, every)]
    log.active.seal()
    assert log.active.time_index.last == TimestampOffset(NOW_MS + 29, 29)


@pytest.mark.parametrize(("offset", "is_right"), [(0, False), (1, True), (2, False), (3, False)])
def test_a_time_index_that_names_another_batch_than_the_first_of_its_millisecond_is_damaged(
    offset: int, is_right: bool
) -> None:
    found: list[Finding] = []
    check = TimeIndexCheck("0.timeindex", pack(">qi", NOW_MS + 5, offset), 0, found.append)
    for number, later_ms in enumerate([0, 5, 5, 3]):
        check.batch(headers_of(make_batch(number, 1, timestamp=NOW_MS + later_ms))[0])
    check.end()
    assert (not found) == is_right
