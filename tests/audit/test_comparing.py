"""Two replicas, and a mirror and its source, batch by batch and record by record: what differs, where, and in what."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from log_making import NOW_MS, headers_of, make_batch, make_marker

from kpybroker.machines.audit import mirror, replicas
from kpybroker.machines.audit.findings import BytePlace
from kpybroker.machines.audit.mirror import MOST_SHOWN, Unequal
from kpybroker.machines.audit.replicas import Difference, differing
from kpybroker.machines.audit.windows import AuditWindow
from kpystorage.reading import StoredBatch
from kpywire.batch import HEADER_BYTES
from kpywire.record import Record, build_batch, read_batch


def stored(*batches: bytes) -> list[StoredBatch]:
    return [StoredBatch(headers_of(each)[0], memoryview(each)) for each in batches]


def placed(*batches: bytes, path: str = "/p") -> Iterator[replicas.Placed]:
    at = 0
    for each in stored(*batches):
        yield BytePlace(path, at), each
        at += len(each.data)


def differences(
    ours: Sequence[bytes], theirs: Sequence[bytes], end: int = 1 << 40, cleaned_to: int = 0
) -> list[Difference]:
    return list(replicas.differences(placed(*ours), placed(*theirs), end, cleaned_to))


ONE, TWO, THREE = make_batch(0, 2), make_batch(2, 2), make_batch(4, 2)


# Windows.


def window(number: int, digest: bytes) -> AuditWindow:
    return AuditWindow(number, number << 16, (number + 1) << 16, 1, 1, digest)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "WINDOW_OFFSETS", 10)


@pytest.mark.usefixtures("small_windows")
def test_windows_that_differ_in_a_row_are_one_range() -> None:
    ours = [window(number, b"a") for number in range(5)]
    theirs = [window(0, b"a"), window(1, b"b"), window(2, b"b"), window(3, b"a")]
    assert differing(ours, theirs, 0, 50) == [(10, 30), (40, 50)]
    assert differing(ours, theirs, 12, 45) == [(12, 30), (40, 45)]
    assert differing(ours, theirs, 30, 40) == []
    assert differing(ours, theirs, 29, 41) == [(29, 30), (40, 41)]
    assert differing(ours, ours, 0, 50) == []
    assert differing([], theirs, 0, 20) == [(0, 20)]


# Replicas.


def test_equal_replicas_do_not_differ_whatever_leader_stamped_them() -> None:
    assert differences([ONE, TWO], [ONE, TWO]) == []
    stamped = bytearray(TWO)
    stamped[12:16] = (9).to_bytes(4, "big")
    assert differences([ONE, TWO], [ONE, bytes(stamped)]) == []


def test_a_batch_that_one_replica_lacks_is_named_at_its_place() -> None:
    assert differences([ONE, TWO, THREE], [ONE, THREE]) == [
        Difference(2, 4, BytePlace("/p", len(ONE)), "a batch is missing")
    ]
    assert differences([ONE, TWO], [ONE]) == [Difference(2, 4, BytePlace(), "a batch is missing")]
    assert differences([ONE, THREE], [ONE, TWO, THREE]) == [
        Difference(2, 4, BytePlace("/p", len(ONE)), "has a batch that the other has not")
    ]
    assert differences([], [ONE]) == [Difference(0, 2, BytePlace("/p", 0), "has a batch that the other has not")]


def test_differences_of_one_kind_in_a_row_are_one() -> None:
    assert differences([ONE, TWO, THREE], []) == [Difference(0, 6, BytePlace(), "a batch is missing")]
    apart = differences([ONE, TWO, THREE], [TWO])
    assert [each[:2] for each in apart] == [(0, 2), (4, 6)]
    mixed = differences([ONE, make_batch(4, 2)], [make_batch(2, 2), make_batch(4, 2)])
    assert [(each.offset, each.text) for each in mixed] == [
        (0, "a batch is missing"),
        (2, "has a batch that the other has not"),
    ]
    hole = differences([ONE, make_batch(7, 1)], [])
    assert [each[:2] for each in hole] == [(0, 2), (7, 8)]


def test_records_at_or_after_the_common_end_are_not_compared() -> None:
    assert differences([ONE, TWO], [ONE], end=2) == []
    assert [each.offset for each in differences([ONE, TWO], [ONE], end=3)] == [2]


def changed(data: bytes, position: int, value: int = 0x55) -> bytes:
    found = bytearray(data)
    found[position] ^= value
    return bytes(found)


@pytest.mark.parametrize(
    ("position", "name"),
    [
        (8, "length"),
        (11, "length"),
        (16, "magic"),
        (21, "attributes"),
        (22, "attributes"),
        (23, "last offset delta"),
        (26, "last offset delta"),
        (27, "base timestamp"),
        (35, "largest timestamp"),
        (43, "producer id"),
        (50, "producer id"),
        (51, "producer epoch"),
        (53, "sequence"),
        (57, "record count"),
        (60, "record count"),
    ],
)
def test_the_field_of_a_header_that_differs_is_named(position: int, name: str) -> None:
    one = StoredBatch(headers_of(TWO)[0], memoryview(TWO))
    two = one._replace(data=memoryview(changed(TWO, position)))
    (found,) = replicas.differences(iter([(BytePlace("/p", 50), one)]), iter([(BytePlace("/p", 50), two)]), 99)
    assert found == Difference(2, 4, BytePlace("/p", 50 + position), f"another {name} in its batch of offset 2")


def record(value: bytes = b"v", key: bytes | None = b"k", timestamp: int = NOW_MS, header: bytes = b"h") -> Record:
    return Record(timestamp=timestamp, key=key, value=value, headers=((("n", header)),))


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (record(key=b"x"), "key of offset 6"),
        (record(value=b"x"), "value of offset 6"),
        (record(header=b"x"), "headers of offset 6"),
        (record(key=b"x", value=b"x"), "key of offset 6"),
    ],
)
def test_the_part_of_a_record_that_differs_is_named_with_its_byte(other: Record, name: str) -> None:
    one, two = build_batch([record(), record()], base_offset=5), build_batch([record(), other], base_offset=5)
    at = next(index for index in range(HEADER_BYTES, len(one)) if one[index] != two[index])
    (found,) = differences([one], [two])
    assert found == Difference(5, 7, BytePlace("/p", at), f"another {name} at byte {at} of its batch of offset 5")


def test_a_place_that_is_not_known_stays_so_and_what_cannot_be_read_is_content() -> None:
    two = changed(TWO, HEADER_BYTES, 0xFF)
    (found,) = replicas.differences(iter([(BytePlace(), stored(TWO)[0])]), iter([(BytePlace(), stored(two)[0])]), 99)
    assert found == Difference(2, 4, BytePlace(), f"another content at byte {HEADER_BYTES} of its batch of offset 2")


def test_a_batch_that_goes_on_longer_differs_where_the_other_ends() -> None:
    longer = StoredBatch(headers_of(TWO)[0], memoryview(TWO + b"x"))
    found = list(
        replicas.differences(iter([(BytePlace("/p", 0), stored(TWO)[0])]), iter([(BytePlace("/p", 0), longer)]), 99)
    )
    assert [(each.place.byte, each.text) for each in found] == [
        (len(TWO), f"another content at byte {len(TWO)} of its batch of offset 2")
    ]


def test_below_the_cleaned_offset_records_may_be_missing_and_may_not_differ() -> None:
    whole = build_batch([record(b"a"), record(b"b")], base_offset=0)
    thinned = build_batch([record(b"b")._replace(offset=1)], base_offset=0)
    other = build_batch([record(b"c")._replace(offset=1)], base_offset=0)
    for one, two in ((whole, thinned), (thinned, whole)):
        assert differences([one], [two], cleaned_to=2) == []
        assert len(differences([one], [two], cleaned_to=1)) == 1
    assert len(differences([whole], [other], cleaned_to=2)) == 1
    assert differences([ONE, TWO], [ONE], cleaned_to=4) == []
    assert len(differences([ONE, TWO], [ONE], cleaned_to=3)) == 1
    assert differences([ONE], [ONE, TWO], cleaned_to=4) == []
    assert len(differences([ONE], [ONE, TWO], cleaned_to=3)) == 1
    broken = changed(whole, HEADER_BYTES, 0xFF)
    assert len(differences([whole], [broken], cleaned_to=2)) == 1


# Mirrors.


def log(*values: bytes, base: int = 0, timestamp: int = NOW_MS) -> list[bytes]:
    """One batch for each value."""
    return [
        build_batch([record(value, timestamp=timestamp + number)], base_offset=base + number)
        for number, value in enumerate(values)
    ]


def unequal(source: Sequence[bytes], copy: Sequence[bytes], *, any_offsets: bool = False) -> list[Unequal]:
    return list(mirror.compare(lambda: iter(stored(*source)), lambda: iter(stored(*copy)), any_offsets=any_offsets))


def test_a_mirror_that_is_behind_is_only_that() -> None:
    source = log(b"a", b"b", b"c", b"d")
    assert unequal(source, source[:2]) == [Unequal(2, "is 2 records behind, from offset 2 on", is_behind=True)]
    assert unequal(source, []) == [Unequal(0, "is 4 records behind, from offset 0 on", is_behind=True)]
    text = "is 2 records behind, from offset 2 of its source on"
    assert unequal(source, source[:2], any_offsets=True) == [Unequal(2, text, is_behind=True)]
    assert unequal([], []) == []
    assert unequal(source, source) == unequal(source, source, any_offsets=True) == []


def test_a_mirror_with_more_than_its_source_is_wrong() -> None:
    source = log(b"a", b"b")
    more = "has a record at offset 2 that its source has not"
    assert unequal(source, log(b"a", b"b", b"c")) == [Unequal(2, more)]
    more = "has records from offset 2 on that its source has not"
    assert unequal(source, log(b"a", b"b", b"c"), any_offsets=True) == [Unequal(2, more)]


def test_records_that_differ_are_named_and_the_comparison_goes_on() -> None:
    source, copy = log(b"a", b"b", b"c", b"d"), log(b"a", b"x", b"c", b"y")
    assert unequal(source, copy) == [
        Unequal(1, "has another value at offset 1"),
        Unequal(3, "has another value at offset 3"),
    ]
    moved = [*log(b"a", b"b"), *log(b"d", base=3, timestamp=NOW_MS)]
    assert unequal(source, moved)[0] == Unequal(2, "lacks the record of offset 2")
    (found,) = unequal(source, log(b"a", b"x", b"c", b"y"), any_offsets=True)
    assert found.text == ("has another value at offset 1 than its source at offset 1; what follows is not compared")


def test_records_deleted_at_the_start_of_either_replica_are_not_compared() -> None:
    source = log(b"a", b"b", b"c", b"d")
    assert unequal(source[1:], source) == []
    assert unequal(source, source[2:]) == []
    assert unequal(source[1:], source, any_offsets=True) == []
    assert unequal(source, source[2:], any_offsets=True) == []
    lacks = [source[0], *source[2:]]
    assert unequal(source, lacks) == [Unequal(1, "lacks the record of offset 1")]
    assert unequal(lacks, source) == [Unequal(1, "has a record at offset 1 that its source has not")]
    (found,) = unequal(source, log(b"x", b"y"), any_offsets=True)
    assert found.offset == 0, "nothing of the one is in the other"


def test_only_so_many_differences_are_listed_and_being_behind_is_none() -> None:
    names = [b"%d" % number for number in range(20)]
    for wrong in (MOST_SHOWN, MOST_SHOWN + 1):
        copy = [b"x" + each if number < wrong else each for number, each in enumerate(names)]
        found = unequal(log(*names, b"new"), log(*copy))
        assert [each.offset for each in found[:MOST_SHOWN]] == list(range(MOST_SHOWN))
        last = found[MOST_SHOWN]
        if wrong == MOST_SHOWN:
            assert last.is_behind
        else:
            assert (last.offset, last.text) == (MOST_SHOWN, "more differences follow")
        assert len(found) == MOST_SHOWN + 1


def test_times_that_a_broker_stamped_are_not_compared() -> None:
    own, late = log(b"a"), log(b"a", timestamp=NOW_MS + 9)
    assert unequal(own, late) == [Unequal(0, "has another timestamp at offset 0")]
    stamped = bytearray(late[0])
    stamped[22] |= 8
    for one, two in ((own, [bytes(stamped)]), ([bytes(stamped)], own)):
        assert unequal(one, two) == []


def transaction(base: int, *, commit: bool, value: bytes) -> list[bytes]:
    batch = build_batch(
        [record(value)], base_offset=base, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    return [batch, make_marker(base + 1, 7, commit=commit)]


def test_only_committed_records_are_compared_and_nothing_behind_an_open_transaction() -> None:
    source = [*transaction(0, commit=False, value=b"x"), *transaction(2, commit=True, value=b"b"), *log(b"c", base=4)]
    copy = [*log(b"b", base=2), *log(b"c", base=4)]
    assert unequal(source, copy) == []
    pending = [*source, transaction(5, commit=True, value=b"d")[0], *log(b"e", base=6)]
    assert unequal(pending, copy) == []
    assert unequal([*pending, make_marker(7, 7, commit=True)], copy)[0].text == "is 2 records behind, from offset 5 on"


def test_batches_that_cannot_be_read_are_passed_over() -> None:
    source = log(b"a", b"b", b"c")
    broken = [source[0], changed(source[1], HEADER_BYTES, 0xFF), source[2]]
    assert unequal(source, broken) == [Unequal(1, "lacks the record of offset 1")]
    many = build_batch([record(b"a"), record(b"b"), record(b"c")], base_offset=0)
    assert unequal([many], log(b"a", b"b", b"c", timestamp=NOW_MS - 0))[:1] != [
        Unequal(0, "lacks the record of offset 0")
    ]


def decoded(monkeypatch: pytest.MonkeyPatch, source: Sequence[bytes], copy: Sequence[bytes]) -> int:
    """The number of records that a comparison decodes."""
    count = 0

    def counting(*asked: Any) -> Iterator[Record]:
        nonlocal count
        for each in read_batch(*asked):
            count += 1
            yield each

    monkeypatch.setattr(mirror, "read_batch", counting)
    assert unequal(source, copy) == []
    return count


def test_only_the_first_record_of_equal_batches_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def batch(*offsets: int) -> bytes:
        return build_batch([record(b"%d" % each)._replace(offset=each) for each in offsets], base_offset=offsets[0])

    whole = [batch(0, 1, 2), batch(3, 4, 5), batch(6, 7, 8)]
    assert decoded(monkeypatch, whole, whole) == 2 * 3
    later = [batch(0), batch(1, 2), *whole[1:]]
    assert decoded(monkeypatch, whole, later) == 2 * 3 + 2 * 2


def test_equal_batches_are_passed_over_whole_and_others_record_by_record() -> None:
    def several(*values: bytes) -> bytes:
        return build_batch([record(each) for each in values], base_offset=0)

    same = [several(b"a", b"b"), *log(b"c", base=2)]
    assert unequal(same, same) == []
    assert unequal(same, [several(b"a", b"x"), *log(b"c", base=2)]) == [Unequal(1, "has another value at offset 1")]
    assert (
        unequal(same, [*[build_batch([record(each)], base_offset=at) for at, each in enumerate((b"a", b"b"))], same[1]])
        == []
    )
    behind = [several(b"a", b"b", b"c")]
    assert unequal(behind, [several(b"a", b"b")]) == [
        Unequal(2, "is 1 records behind, from offset 2 on", is_behind=True)
    ]
