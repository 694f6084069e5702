"""Files of entries beside a list: whatever is appended, written, rebuilt or cut, both have the same entries."""

from bisect import bisect_right
from random import Random
from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpystorage.entry_file import EntryFile
from kpystorage.memory_disk import MemoryDisk

ENTRY = Struct(">iI")
PATH = "/d/entries"


def entry(key: int) -> bytes:
    return ENTRY.pack(key, key % 7)


def key_of(entries: bytes, position: int) -> int:
    key, _ = ENTRY.unpack_from(entries, position)
    assert isinstance(key, int)
    return key


class CountedFile:
    """A file that counts how often and how much of it is read and written."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._file = disk.create(PATH)
        self.reads: list[int] = []
        self.writes = 0

    def pread(self, length: int, position: int) -> bytes:
        self.reads.append(length)
        return self._file.pread(length, position)

    def pwrite(self, data: Any, position: int) -> None:
        self.writes += 1
        self._file.pwrite(data, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def made(keys: list[int] = (), unwritten: int = 0) -> tuple[EntryFile, CountedFile]:  # type: ignore[assignment]
    """Entries with these keys, of which some are only in memory, and their file."""
    disk = MemoryDisk()
    disk.make_directory("/d")
    file = CountedFile(disk)
    entries: Any = EntryFile(file, ENTRY.size)
    for number, key in enumerate(keys):
        if number == len(keys) - unwritten:
            entries.flush()
        entries.append(entry(key))
    if not unwritten:
        entries.flush()
    return entries, file


def contents(file: CountedFile) -> list[bytes]:
    data = file._file.pread(file.size(), 0)
    return [data[at : at + ENTRY.size] for at in range(0, len(data), ENTRY.size)]


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 30)),
        st.tuples(st.just("truncate"), st.integers(0, 60)),
        st.tuples(st.sampled_from(["flush", "settle", "rebuild"]), st.just(0)),
        st.tuples(st.just("append the same"), st.integers(1, 30)),
    ),
    max_size=12,
)


@given(OPERATIONS, st.data())
def test_entries_are_those_of_a_list_whatever_is_done(operations: list[tuple[str, int]], data: st.DataObject) -> None:
    entries, file = made()
    model: list[int] = []
    before: list[int] = []
    written = 0
    is_rebuilt = False
    for name, count in operations:
        if name == "append":
            for _ in range(count):
                model.append((model[-1] if model else 0) + data.draw(st.integers(1, 9)))
                entries.append(entry(model[-1]))
        elif name == "append the same":
            for key in before[len(model) : len(model) + count]:
                model.append(max(key, model[-1] if model else key))
                entries.append(entry(model[-1]))
        elif name == "truncate":
            count = min(count, len(model))
            del model[count:]
            entries.truncate(count)
            is_rebuilt, written = False, count
            assert contents(file) == [entry(key) for key in model]
        elif name == "rebuild":
            before, model, is_rebuilt, written = model, [], True, 0
            entries.rebuild()
        else:
            getattr(entries, name)()
            written = len(model)
            is_rebuilt = is_rebuilt and name == "flush"
            assert contents(file)[:written] == [entry(key) for key in model]
        assert len(entries) == len(model)
        assert entries.unwritten == len(model) - written
        if not is_rebuilt:
            assert len(contents(file)) == written
        for _ in range(3):
            first, many = data.draw(st.integers(0, 70)), data.draw(st.integers(0, 70))
            expected = b"".join(map(entry, model[first : first + many]))
            assert entries.read(first, many) == expected
    assert len(EntryFile(file, ENTRY.size)) == len(contents(file))


@given(
    st.lists(st.integers(1, 50), max_size=2_000),
    st.integers(0, 80),
    st.sampled_from(["known", "unknown"]),
    st.data(),
)
def test_the_last_entry_not_above_a_key_is_found(
    gaps: list[int], unwritten: int, least: str, data: st.DataObject
) -> None:
    keys: list[int] = []
    for gap in gaps:
        keys.append((keys[-1] if keys else 0) + gap)
    entries, _ = made(keys, min(unwritten, len(keys)))
    for _ in range(5):
        target = data.draw(st.integers(-1, (keys[-1] if keys else 0) + 2))
        place = bisect_right(keys, target) - 1
        found = entries.last_not_above(target, key_of, keys[0] if keys and least == "known" else None)
        assert found == ((place, entry(keys[place])) if place >= 0 else (-1, b""))


def test_a_key_is_found_in_few_reads_where_keys_ascend_evenly_and_where_they_do_not() -> None:
    count = 100_000
    rng = Random(5)
    even = [100 * number + rng.randrange(100) for number in range(count)]
    uneven = sorted(int(1.0001**number) + number for number in range(count))
    for keys, mean, most in ((even, 2, 2), (uneven, 5, 6)):
        entries, file = made(keys)
        reads = []
        for _ in range(300):
            file.reads.clear()
            target = rng.choice(keys)
            assert entries.last_not_above(target, key_of, keys[0])[1] == entry(target)
            assert all(length <= 4096 for length in file.reads)
            reads.append(len(file.reads))
        assert sum(reads) / len(reads) <= mean
        assert max(reads) <= most


def test_entries_in_memory_are_searched_without_a_read() -> None:
    entries, file = made(list(range(1_000)), unwritten=10)
    file.reads.clear()
    assert entries.last_not_above(995, key_of) == (995, entry(995))
    assert entries.last_not_above(990, key_of) == (990, entry(990))
    assert file.reads == []
    assert entries.last_not_above(989, key_of) == (989, entry(989))
    assert file.reads


@pytest.mark.parametrize(("same", "writes"), [(100, 0), (40, 1), (0, 1)])
def test_entries_that_a_rebuilt_file_has_already_are_not_written_again(same: int, writes: int) -> None:
    entries, file = made(list(range(100)))
    entries.rebuild()
    file.writes = 0
    for number in range(100):
        if number == same:
            entries.flush()
        entries.append(entry(number if number < same else 1_000 + number))
    entries.settle()
    assert file.writes == writes
    assert contents(file) == [entry(number if number < same else 1_000 + number) for number in range(100)]


def test_a_rest_of_an_entry_at_the_end_of_a_file_is_no_entry() -> None:
    entries, file = made([1, 2, 3])
    file.pwrite(b"rest", 3 * ENTRY.size)
    assert len(EntryFile(file, ENTRY.size)) == len(entries) == 3
