"""A look at records: the newest are read backward, a filter compares a bounded number, each partition has its share."""

from typing import Any

import pytest

from kpybroker.machines.console import record_tasks
from kpybroker.machines.console.matching import Needle, RecordFilter
from kpybroker.machines.console.record_tasks import (
    FoundRecord,
    PartitionFiles,
    RecordTask,
    SearchEnded,
    Unreadable,
    work,
)
from kpystorage.memory_disk import MemoryDisk
from kpywire.record import Record, build_batch

EVEN = RecordFilter((Needle(b"even", "any"),))


def place_of(disk: MemoryDisk, batches: list[bytes], end: int, partition: int = 0, start: int = 0) -> PartitionFiles:
    path = f"/d{partition}"
    disk.make_directory(path)
    disk.write(f"{path}/00000000000000000000.log", b"".join(batches), synchronize=False)
    return PartitionFiles(partition, path, 0, end, start, end)


def numbered(count: int, each: int = 1, size: int = 0) -> list[bytes]:
    """Batches of ``each`` records with numbers, even ones marked."""

    def record(number: int) -> Record:
        return Record(timestamp=number, value=b"%d %s" % (number, b"odd" if number % 2 else b"even") + b"x" * size)

    return [
        build_batch([record(n) for n in range(start, start + each)], base_offset=start)
        for start in range(0, count, each)
    ]


def look(disk: MemoryDisk, *places: PartitionFiles, **task: Any) -> tuple[list[int], SearchEnded]:
    answers = list(work(disk, RecordTask(places, **task)))
    ended = answers[-1]
    assert isinstance(ended, SearchEnded)
    return [each.offset for each in answers if isinstance(each, FoundRecord)], ended


@pytest.mark.parametrize("each", [1, 7, 100])
def test_the_newest_records_are_the_last_in_whatever_batches_they_are(each: int) -> None:
    disk = MemoryDisk()
    place = place_of(disk, numbered(700, each), 700)
    assert look(disk, place, most=5, newest=True)[0] == [699, 698, 697, 696, 695]
    found, ended = look(disk, place, most=150, newest=True, filter=EVEN)
    assert found == list(range(698, 398, -2))
    assert ended.reason == ""


def test_the_newest_records_are_found_behind_a_gap_that_compaction_left() -> None:
    disk = MemoryDisk()
    batches = [*numbered(3), *[build_batch([Record(value=b"late")], base_offset=5000)]]
    assert look(disk, place_of(disk, batches, 5001), most=3, newest=True)[0] == [5000, 2, 1]


def test_no_record_before_the_start_is_shown() -> None:
    disk = MemoryDisk()
    place = place_of(disk, numbered(20, 10), 20, start=13)
    assert look(disk, place, most=50, newest=True)[0] == list(range(19, 12, -1))
    assert look(disk, place, most=50)[0] == list(range(13, 20))


@pytest.mark.parametrize("newest", [True, False])
def test_a_filter_compares_a_bounded_number_of_records(monkeypatch: pytest.MonkeyPatch, *, newest: bool) -> None:
    monkeypatch.setattr(record_tasks, "MOST_LOOKED", 200)
    disk = MemoryDisk()
    place = place_of(disk, numbered(5000), 5000)
    found, ended = look(disk, place, most=10, newest=newest, filter=RecordFilter((Needle(b"none", "any"),)))
    assert (found, ended.reason) == ([], "enough was compared")
    assert 200 <= ended.records < 1000
    assert ended.next_offsets == (() if newest else ((0, ended.records),))


def test_each_partition_has_its_share_of_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_tasks, "MOST_READ_BYTES", 100_000)
    disk = MemoryDisk()
    places = [place_of(disk, numbered(100, size=1000), 100, number) for number in range(4)]
    answers = list(work(disk, RecordTask(tuple(places), 500)))
    counts = [
        sum(isinstance(each, FoundRecord) and each.partition == number for each in answers) for number in range(4)
    ]
    assert all(20 < count < 30 for count in counts)
    assert isinstance(answers[-1], SearchEnded)
    assert answers[-1].reason == "enough was read"


def test_large_records_are_read_in_small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_tasks, "MOST_READ_BYTES", 100_000)
    disk = MemoryDisk()
    place = place_of(disk, numbered(2000, size=1000), 2000)
    found, ended = look(disk, place, most=500, newest=True)
    assert found[:3] == [1999, 1998, 1997]
    assert found == list(range(1999, 1999 - len(found), -1)), "no record is left out"
    assert ended.read_bytes < 300_000


def test_records_before_a_damaged_batch_are_shown_with_the_damage() -> None:
    disk = MemoryDisk()
    batches = numbered(5)
    batches[3] = batches[3][:-1] + bytes([batches[3][-1] ^ 1])
    answers = list(work(disk, RecordTask((place_of(disk, batches, 5),), 50, newest=True)))
    assert [each.offset for each in answers if isinstance(each, FoundRecord)] == [2, 1, 0]
    (gap,) = [each for each in answers if isinstance(each, Unreadable)]
    assert (gap.offset, "damaged" in gap.reason) == (3, True)


def test_headers_are_cut_the_more_a_page_has() -> None:
    disk = MemoryDisk()
    headers = tuple((f"h{n}", b"x" * 1000) for n in range(60))
    records = [Record(value=b"v" * 20_000, headers=headers)] * 60
    answers = list(work(disk, RecordTask((place_of(disk, [build_batch(records)], 60),), 60)))
    found = [each for each in answers if isinstance(each, FoundRecord)]
    assert len(found[0].headers) > 25
    assert found[0].headers_left_out == 60 - len(found[0].headers)
    assert 1 <= len(found[-1].headers) <= 3
    whole = next(work(disk, RecordTask((place_of(disk, [build_batch(records)], 60, 1),), 1, whole=True)))
    assert isinstance(whole, FoundRecord)
    assert (len(whole.headers), len(whole.value or b"")) == (60, 20_000)
