"""Epochs and indexes beside a plain list of what a log holds, whatever happens to it."""

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpystorage.entry_file import ENTRIES_PER_WRITE
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.memory_disk import MemoryDisk
from kpystorage.offset_index import MOST_IN_ENTRY, OffsetIndex, position_near
from kpystorage.time_index import TimeIndex, TimestampOffset
from kpystorage.transaction_index import TransactionIndex, TransactionIndexEntry
from kpywire.record import plain_batch


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 5)),
            st.tuples(st.sampled_from(["end", "start"]), st.integers(0, 40), st.just(0)),
        ),
        max_size=20,
    )
)
def test_every_offset_has_the_epoch_of_its_record(operations: list[tuple[str, int, int]]) -> None:
    epochs, records, epoch, end = LeaderEpochs(), dict[int, int](), 0, 0
    for operation, number, count in operations:
        epochs.dirty, before = False, epochs.entries()
        if operation == "append":
            epoch += number
            epochs.assign(epoch, end)
            records |= dict.fromkeys(range(end, end + count), epoch)
            end += count
        elif operation == "end":
            end = min(max(number, min(records, default=end)), end)
            epochs.truncate_from_end(end)
            records = {offset: each for offset, each in records.items() if offset < end}
        elif number < end:
            epochs.truncate_from_start(number)
            records = {offset: each for offset, each in records.items() if offset >= number}
        held = [(each, min(offsets)) for each, offsets in groupby(sorted(records), records.__getitem__)]
        assert epochs.entries() == held
        assert epochs.dirty is (epochs.entries() != before)
        assert {offset: epochs.epoch_for(offset) for offset in records} == records
        assert epochs.epoch_for(min(records, default=1) - 1) == -1
        assert epochs.earliest == (held[0] if held else None)
        assert epochs.latest == (held[-1][0] if held else -1)
        ends = [start for _, start in held[1:]] + [end] * bool(held)
        for (each, _), behind in zip(held, ends, strict=True):
            assert epochs.end_offset_for(each, end) == (each, behind)


# Indexes


def entries_of(index: OffsetIndex) -> list[tuple[int, int]]:
    return [index.entry(number) for number in range(len(index))]


def offset_index(count: int, base_offset: int = 100) -> tuple[MemoryDisk, OffsetIndex]:
    """Entries of every tenth offset and every hundredth byte."""
    disk = MemoryDisk()
    index = OffsetIndex(disk.create("/index"), base_offset, 0)
    for number in range(1, count + 1):
        index.append(base_offset + 10 * number, 100 * number)
    index.flush()
    return disk, index


@pytest.mark.parametrize("same", [0, 1, 63, 64, 65, 130])
@pytest.mark.parametrize("count", [0, 1, 64, 65, 128, 130, 200])
def test_an_index_that_is_rebuilt_holds_the_new_entries_and_nothing_else(same: int, count: int) -> None:
    disk, index = offset_index(130)
    index.rebuild()
    assert (len(index), index.last_offset, index.last_position) == (0, 100, 0)
    expected = [(100 + 10 * number + (number > same), 100 * number) for number in range(1, count + 1)]
    for offset, position in expected:
        if index.append(offset, position):
            index.flush()
    index.settle()
    assert entries_of(index) == expected
    assert disk.file("/index").size() == 8 * count
    assert entries_of(OffsetIndex(disk.file("/index"), 100)) == expected
    index.append(5_000, 90_000)
    index.flush()
    assert entries_of(OffsetIndex(disk.file("/index"), 100)) == [*expected, (5_000, 90_000)]


def test_entries_are_written_when_enough_have_gathered() -> None:
    index = OffsetIndex(MemoryDisk().create("/index"), 0, 0)
    gathered = [index.append(number, number) for number in range(1, ENTRIES_PER_WRITE + 1)]
    assert gathered == [False] * (ENTRIES_PER_WRITE - 1) + [True]


@pytest.mark.parametrize("keep", [0, 1, 99, 100, 120])
def test_the_first_entries_of_an_index_are_kept(keep: int) -> None:
    disk, index = offset_index(100)
    for number in range(101, 121):
        index.append(100 + 10 * number, 100 * number)
    index.keep(keep)
    assert entries_of(index) == [(100 + 10 * number, 100 * number) for number in range(1, keep + 1)]
    assert (index.last_offset, index.last_position) == (100 + 10 * keep, 100 * keep)
    assert disk.file("/index").size() == 8 * keep


def test_the_first_entry_from_a_position_on_is_found() -> None:
    _, index = offset_index(100)
    found = {position: index.first_from(position) for position in (0, 100, 101, 200, 9_999, 10_000, 10_001)}
    assert found == {0: 110, 100: 110, 101: 120, 200: 120, 9_999: 1_100, 10_000: 1_100, 10_001: None}


def test_a_batch_that_no_entry_can_describe_is_left_out() -> None:
    index = OffsetIndex(MemoryDisk().create("/index"), 100, 0)
    index.append(100 + MOST_IN_ENTRY + 1, 5)
    index.append(110, MOST_IN_ENTRY + 1)
    assert entries_of(index) == []
    index.append(100 + MOST_IN_ENTRY, MOST_IN_ENTRY)
    assert entries_of(index) == [(100 + MOST_IN_ENTRY, MOST_IN_ENTRY)]
    times = TimeIndex(MemoryDisk().create("/timeindex"), 100, 0)
    times.append_if_later(7, 100 + MOST_IN_ENTRY + 1)
    assert len(times) == 0
    times.append_if_later(7, 100 + MOST_IN_ENTRY)
    assert times.entry(0) == TimestampOffset(7, 100 + MOST_IN_ENTRY)


BATCHES = [plain_batch([(b"k", b"v" * 50)] * 5, 100 + 5 * number, 0, 1_000) for number in range(20)]


@pytest.mark.parametrize("space", [0, 24])
def test_a_place_near_an_offset_is_that_of_a_batch_which_the_index_describes(space: int) -> None:
    disk, at = MemoryDisk(), 0
    log, index = disk.create("/log"), OffsetIndex(disk.create("/index"), 100, 0)
    places = {}
    for number, batch in enumerate(BATCHES):
        log.pwrite(batch, at)
        if number % 4 == 3:
            index.append(104 + 5 * number, at)
            places[104 + 5 * number] = at
        at += len(batch)
    index.flush()
    disk.file("/index").pwrite(bytes(space), 8 * len(index))
    for offset in range(100, 210):
        expected = max((place for last, place in places.items() if last <= offset), default=0)
        assert position_near(disk.file("/index"), log, at, 100, offset) == expected
    assert position_near(disk.file("/index"), log, places[119], 100, 125) == 0, "behind the end of the log"
    assert position_near(disk.file("/index"), log, at, 101, 126) == 0, "another batch than the entry says"
    assert position_near(disk.file("/none"), log, at, 100, 150) == 0


def test_aborted_transactions_are_read_on_over_many_blocks() -> None:
    disk = MemoryDisk()
    index = TransactionIndex(disk, "/txnindex", exists=False)
    made = [TransactionIndexEntry(1, 2 * number, 2 * number + 1, 2 * number) for number in range(2_500)]
    for each in made:
        index.append(each)
    assert list(index.entries()) == made
    assert index.overlapping(0, 10_000) == (made, False)
    index.truncate_to(4_001)
    assert list(index.entries()) == made[:2_000]
    assert disk.file("/txnindex").size() == 34 * 2_000
    index.reset()
    assert disk.file("/txnindex").size() == 0
    index.append(made[0])
    assert list(TransactionIndex(disk, "/txnindex", exists=True).entries()) == made[:1]
