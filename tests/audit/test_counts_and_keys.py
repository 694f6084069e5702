"""Rows of tables, keys of compacted logs, positions of groups, and the records that a consumer sees."""

import pytest
from log_making import NOW_MS, headers_of, make_batch, make_marker

from kpybroker.machines.audit import keys, tables
from kpybroker.machines.audit.findings import DAMAGE, NOTE, AuditFinding
from kpybroker.machines.audit.groups import CommitBounds, positions
from kpybroker.machines.audit.groups import judge as judge_groups
from kpybroker.machines.audit.records import committed_batches, committed_records
from kpybroker.machines.audit.sources import AuditedReplica
from kpybroker.machines.audit.tables import TableRange
from kpybroker.machines.groups import record as group_record
from kpystorage.reading import StoredBatch
from kpywire.batch import HEADER_BYTES
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.record import Record, build_batch

REPLICA = AuditedReplica("broker 1", "t", 0, "/data/t-0")


def stored(*batches: bytes) -> list[StoredBatch]:
    return [StoredBatch(headers_of(each)[0], memoryview(each)) for each in batches]


def unreadable(base: int, count: int = 1) -> bytes:
    """A batch whose header is whole and whose records are not."""
    data = bytearray(make_batch(base, count))
    data[HEADER_BYTES] = 0xFF
    return bytes(data)


def sparse(*offsets: int) -> bytes:
    """A batch that compaction has thinned out."""
    return build_batch([Record(timestamp=NOW_MS, value=b"v", offset=each) for each in offsets], base_offset=offsets[0])


def opened(base: int, count: int = 1, producer_id: int = 7) -> bytes:
    return make_batch(base, count, producer_id=producer_id, transactional=True)


# Committed records.


def bases(found: list[StoredBatch]) -> list[int]:
    return [each.header.base_offset for each in found]


def test_a_consumer_sees_transactions_when_they_are_committed_and_aborted_ones_never() -> None:
    log = stored(
        opened(0), make_batch(1), opened(2, producer_id=8), opened(3), make_marker(4, 8, commit=False),
        make_marker(5, 7, commit=True), opened(6), make_batch(7),
    )  # fmt: skip
    assert bases(list(committed_batches(log))) == [1, 0, 3, 7]
    assert [each.offset for each in committed_records(log)] == [1, 0, 3, 7]


def test_a_log_is_read_on_until_the_transactions_before_the_end_are_ended() -> None:
    log = stored(opened(0), make_batch(1), make_batch(2), opened(3, producer_id=8), make_marker(4, 7, commit=True))
    assert bases(list(committed_batches(log, 2))) == [1, 0]
    reading = iter(log)
    assert bases(list(committed_batches(reading, 1))) == [0]
    assert list(reading) == []
    reading = iter(stored(make_batch(0), make_batch(1), make_batch(2)))
    assert bases(list(committed_batches(reading, 1))) == [0]
    assert bases(list(reading)) == [2], "nothing is open: what follows is not read"


def test_markers_and_batches_that_cannot_be_read_are_passed_over() -> None:
    broken = build_batch(
        [Record(timestamp=NOW_MS, key=None, value=b"")], base_offset=1, producer_id=7, producer_epoch=0,
        transactional=True, control=True,
    )  # fmt: skip
    log = stored(opened(0), broken, make_batch(2), make_marker(3, 7, commit=True))
    assert bases(list(committed_batches(log))) == [2, 0]
    assert [each.offset for each in committed_records(stored(make_batch(0), unreadable(1), make_batch(2)))] == [0, 2]


# Tables.


def ranged(start: int, end: int, rows: int = 0, table: str = "a") -> TableRange:
    return TableRange(table, "t", 0, start, end, rows)


def test_records_are_counted_in_the_ranges_that_hold_their_offsets() -> None:
    log = stored(make_batch(0, 3), make_batch(3, 4), make_batch(7, 3), make_batch(10, 2))
    assert tables.counted(log, [ranged(0, 3), ranged(3, 7), ranged(7, 12)]) == [3, 4, 5]
    assert tables.counted(log, [ranged(1, 5), ranged(5, 6), ranged(8, 11)]) == [4, 1, 3]
    assert tables.counted(log, [ranged(0, 12)]) == [12]
    assert tables.counted(log, [ranged(20, 30)]) == [0]
    assert tables.counted(log, []) == []


def test_offsets_without_a_record_count_nowhere() -> None:
    log = stored(
        sparse(0, 4, 5), opened(6, 2), make_marker(8, 7, commit=False), opened(9, 2), make_marker(11, 7, commit=True)
    )
    assert tables.counted(log, [ranged(0, 12)]) == [5]
    assert tables.counted(log, [ranged(0, 4), ranged(4, 6), ranged(6, 9), ranged(9, 10)]) == [1, 2, 0, 1]
    assert tables.counted(stored(unreadable(0, 3)), [ranged(0, 2)]) == [0], "which of them are there is not known"
    assert tables.counted(stored(unreadable(0, 3)), [ranged(0, 3)]) == [3]


def texts(*ranges: TableRange, counts: list[int], start: int = 0, end: int = 100) -> list[tuple[int, str]]:
    found = list(tables.judge(ranges, counts, start, end))
    assert all((each.level, each.topic, each.partition) == (DAMAGE, "t", 0) for each in found)
    return [(each.offset, each.text) for each in found]


def test_a_table_has_as_many_rows_as_the_log_has_records() -> None:
    assert texts(ranged(0, 5, 5), ranged(5, 9, 3), counts=[5, 3]) == []
    assert texts(ranged(0, 5, 6), counts=[4]) == [(0, "table a has 6 rows for the offsets 0 to 4, 2 more than the log")]
    assert texts(ranged(0, 5, 3), counts=[4]) == [
        (0, "table a has 3 rows for the offsets 0 to 4, 1 fewer than the log")
    ]
    assert texts(ranged(3, 5, 3), counts=[4], start=4) == [], "its records are deleted"
    assert texts(ranged(4, 5, 3), counts=[4], start=4) != []


def test_a_table_covers_no_offset_twice_and_none_that_is_not_there() -> None:
    twice = "table a covers the offsets 3 to 4 twice"
    assert texts(ranged(0, 5, 5), ranged(3, 9, 6), counts=[5, 6]) == [(3, twice)]
    assert texts(ranged(0, 9, 9), ranged(3, 5, 2), counts=[9, 2]) == [(3, twice)]
    assert texts(ranged(0, 5, 5), ranged(5, 9, 4), counts=[5, 4]) == []
    assert texts(ranged(0, 5, 5), ranged(3, 9, 6, "b"), counts=[5, 6]) == [], "another table may"
    behind = "table a covers offsets up to 9, and the log ends at 8"
    assert texts(ranged(0, 9, 9), counts=[9], end=8) == [(0, behind)]
    assert texts(ranged(0, 8, 8), counts=[8], end=8) == []


def test_ranges_are_grouped_by_partition_in_order() -> None:
    ranges = [TableRange("a", "t", 1, 0, 5, 5), ranged(5, 9), ranged(0, 5)]
    assert tables.by_partition(ranges) == {("t", 0): [ranged(0, 5), ranged(5, 9)], ("t", 1): [ranges[0]]}


# Keys.


def keyed(base: int, *names: bytes | None) -> bytes:
    return build_batch([Record(timestamp=NOW_MS, key=each, value=b"v") for each in names], base_offset=base)


def test_a_key_that_occurs_again_below_the_end_is_named() -> None:
    log = stored(keyed(0, b"a", b"b"), keyed(2, b"c", b"a"), keyed(4, b"b"))
    text = "a key at offset 3 occurs before it, though the log was compacted up to 4"
    (found,) = keys.repeated(REPLICA, log, 4)
    assert (found.level, found.offset, found.text, found.path, found.byte) == (DAMAGE, 3, text, "/data/t-0", -1)
    assert [each.offset for each in keys.repeated(REPLICA, log, 5)] == [3, 4]
    assert list(keys.repeated(REPLICA, log, 3)) == []
    assert list(keys.repeated(REPLICA, stored(keyed(0, None, None, b"")), 9)) == []
    assert [each.offset for each in keys.repeated(REPLICA, stored(keyed(0, b"", b"")), 9)] == [1]


@pytest.mark.parametrize(("again", "more"), [(keys.MOST_SHOWN, 0), (keys.MOST_SHOWN + 1, 1), (keys.MOST_SHOWN + 3, 3)])
def test_many_keys_are_counted(again: int, more: int) -> None:
    found = list(keys.repeated(REPLICA, stored(keyed(0, *[b"a"] * (again + 1))), 99))
    assert [each.offset for each in found[: keys.MOST_SHOWN]] == list(range(1, keys.MOST_SHOWN + 1))
    rest = [(each.offset, each.byte, each.text) for each in found[keys.MOST_SHOWN :]]
    assert rest == ([(-1, -1, f"{more} more keys occur again")] if more else [])


# Groups.


def commit(group: str, topic: str, offset: int | None) -> Record:
    key = OffsetCommitKey(group=group, topic=topic, partition=0)
    value = None
    if offset is not None:
        value = OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=NOW_MS)
    encoded_key, encoded = group_record.GroupRecord(key, value, 4).encoded()
    return Record(timestamp=NOW_MS, key=encoded_key, value=encoded)


def test_the_last_commit_of_a_group_is_its_position() -> None:
    broken = Record(timestamp=NOW_MS, key=b"\0\1", value=b"")
    unknown = Record(timestamp=NOW_MS, key=b"\0\x63", value=b"")
    of_group = Record(timestamp=NOW_MS, key=b"\0\2" + b"\0\1g", value=None)
    records = [
        *(commit("g", "t", 3), broken, unknown, of_group, Record(timestamp=NOW_MS, key=None, value=None)),
        *(
            commit("g", "u", 4),
            commit("g", "t", 5),
            commit("h", "t", 1),
            commit("g", "u", None),
            commit("h", "u", None),
        ),
    ]
    assert positions(records) == {("g", ("t", 0)): 5, ("h", ("t", 0)): 1}


def test_positions_lie_inside_their_logs() -> None:
    log = {("t", 0): CommitBounds(2, 9)}

    def judged(offset: int) -> list[AuditFinding]:
        return list(judge_groups({("g", ("t", 0)): offset, ("g", ("gone", 0)): 5}, log))

    assert [judged(each) for each in (2, 5, 9)] == [[], [], []]
    (beyond,) = judged(10)
    assert (beyond.level, beyond.offset) == (DAMAGE, 10)
    assert beyond.text == "group g has committed 10, and the log ends at 9"
    (before,) = judged(1)
    assert (before.level, before.offset, before.byte) == (NOTE, 1, -1)
    assert before.text == "group g has committed 1, and the log begins at 2: its records are deleted"


# Findings.


def test_a_finding_is_one_line_with_its_place() -> None:
    found = AuditFinding(DAMAGE, "bytes", "t", 0, "broker 1", "/data/a.log", 7, 3, "is bad")
    assert found.line == "bytes: t-0: broker 1: is bad (/data/a.log, byte 7)"
    assert found._replace(byte=0).line == "bytes: t-0: broker 1: is bad (/data/a.log, byte 0)"
    assert found._replace(byte=-1).line == "bytes: t-0: broker 1: is bad (/data/a.log)"
    assert found._replace(path="", byte=-1, partition=-1).line == "bytes: t: broker 1: is bad"
    assert found._replace(path="", byte=-1, partition=-1, topic="", replica="").line == "bytes: is bad"
