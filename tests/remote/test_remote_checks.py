"""Checksums of chunks and entries of indexes: what is damaged is refused before anything is read by it."""

from struct import pack

import pytest

from kpystorage.errors import CorruptObject
from kpystorage.remote import chunk_checksums
from kpystorage.remote.index_checks import check_index
from kpystorage.remote.indexes import IndexType

CHECKSUMS = [5, 2**32 - 1, 7]


def test_checksums_are_read_as_they_were_written() -> None:
    stored = chunk_checksums.encode(CHECKSUMS, None)
    assert len(stored) == chunk_checksums.stored_bytes(3, encrypted=False)
    assert chunk_checksums.decode(stored, 3, None) == CHECKSUMS
    assert chunk_checksums.decode(b"", 3, None) is None


def test_checksums_that_are_damaged_or_of_another_object_are_refused() -> None:
    stored = chunk_checksums.encode(CHECKSUMS, None)
    for count, damaged in ((2, stored), (4, stored), (3, stored[:-1]), (3, stored + b"\0")):
        with pytest.raises(CorruptObject, match=f"checksums of {count} chunks in {len(damaged)} bytes"):
            chunk_checksums.decode(damaged, count, None)
    for place in range(len(stored)):
        damaged = bytes(byte ^ (number == place) for number, byte in enumerate(stored))
        with pytest.raises(CorruptObject, match="that are damaged"):
            chunk_checksums.decode(damaged, 3, None)


@pytest.mark.parametrize(
    ("index", "layout", "good", "bad"),
    [
        (IndexType.OFFSET, ">ii", [(0, 0), (1, 5), (7, 9)], [(1, 1), (1, 2)]),
        (IndexType.OFFSET, ">ii", [(3, 4)], [(1, 2), (2, 2)]),
        (IndexType.OFFSET, ">ii", [], [(-1, 0)]),
        (IndexType.TIMESTAMP, ">qi", [(5, 1), (6, 1), (9, 4)], [(5, 1), (5, 2)]),
        (IndexType.TIMESTAMP, ">qi", [(0, 0)], [(5, 2), (6, 1)]),
        (IndexType.TRANSACTION, ">hqqqq", [(0, 7, 0, 9, 9), (0, 8, 3, 10, 9)], [(0, 7, 0, 9, 9), (0, 8, 3, 9, 9)]),
        (IndexType.TRANSACTION, ">hqqqq", [(0, 7, 0, 9, 9)], [(1, 7, 0, 9, 9)]),
    ],
)
def test_entries_of_an_index_ascend(
    index: IndexType, layout: str, good: list[tuple[int, ...]], bad: list[tuple[int, ...]]
) -> None:
    check_index(index, b"".join(pack(layout, *each) for each in good))
    whole = b"".join(pack(layout, *each) for each in bad)
    for damaged in (whole, whole + b"\0"):
        with pytest.raises(CorruptObject, match=f"a {index.value} index"):
            check_index(index, damaged)
