"""A walk over the batches of a log: what it takes, where it stops, and what it keeps; and stretches joined."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from log_making import NOW_MS, headers_of, make_batch, make_marker

from kpybroker.machines.audit import walk as walking
from kpybroker.machines.audit import windows
from kpybroker.machines.audit.findings import BYTES, DAMAGE, OFFSETS, AuditFinding, BytePlace
from kpybroker.machines.audit.stretch import (
    FRESH,
    UNKNOWN,
    AbortedStretch,
    Break,
    Head,
    OffsetGap,
    Open,
    ProducerRun,
    SeenMarker,
    Stretch,
    join,
    sequence_break,
)
from kpybroker.machines.audit.walk import END_OF_ALL, AuditWalk, Of, Status
from kpybroker.machines.audit.windows import AuditWindow, root
from kpywire.batch import HEADER_BYTES
from kpywire.crc import crc32c
from kpywire.record import Record, build_batch

PATH = "/data/t-0/00000000000000000000.log"


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of eight offsets."""
    monkeypatch.setattr(walking, "WINDOW_OFFSETS", 8)
    monkeypatch.setattr(walking, "SHIFT", 3)


class Played:
    """A walk and its findings."""

    def __init__(self, start: int = 0, end: int = END_OF_ALL, *, deep: bool = False) -> None:
        self.findings: list[AuditFinding] = []
        self.walk = AuditWalk(Of("r", "t", 0), self.findings.append, start, end, deep=deep)
        self.walk.path = PATH

    def feed(self, *batches: bytes, position: int = 0, **more: Any) -> tuple[int, Status]:
        return self.walk.feed(b"".join(batches), position, **more)

    def texts(self) -> list[tuple[str, str, int, int, str]]:
        return [(each.level, each.claim, each.byte, each.offset, each.text) for each in self.findings]


def walked(*batches: bytes, start: int = 0, position: int = 0) -> Stretch:
    played = Played(start)
    data = b"".join(batches)
    assert played.walk.feed(data, position, is_all=True) == (len(data), Status.MORE)
    assert played.findings == []
    return played.walk.cut(0)


def of_producer(base: int, sequence: int, count: int = 1, *, epoch: int = 0, **more: Any) -> bytes:
    return make_batch(base, count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, **more)


def counted(base: int, count: int, delta: int) -> bytes:
    """A batch of ``count`` records whose last offset is ``delta`` behind its first, as compaction leaves them."""
    offsets = [*range(base, base + count - 1), base + delta]
    return build_batch([Record(timestamp=NOW_MS, value=b"v", offset=each) for each in offsets], base_offset=base)


# What is taken.


def test_batches_that_follow_one_another_are_counted() -> None:
    batches = [make_batch(0, 2, timestamp=NOW_MS + 5), make_batch(2, 3), make_batch(5, 1, timestamp=NOW_MS + 1)]
    found = walked(*batches)
    assert (found.start, found.next_offset, found.batches, found.records) == (0, 6, 3, 6)
    assert found.size_bytes == sum(map(len, batches))
    assert (found.first_timestamp, found.max_timestamp) == (NOW_MS + 6, NOW_MS + 6)
    assert (found.gaps, found.missing, found.last_gap, found.damaged) == ((), 0, -1, ())
    assert found.epochs == ((0, 0, 5),)


def test_a_walk_stops_before_a_batch_that_is_not_all_there() -> None:
    first, second = make_batch(0, 2), make_batch(2, 2)
    for cut, wanted in ((HEADER_BYTES - 1, HEADER_BYTES), (HEADER_BYTES, len(second)), (len(second) - 1, len(second))):
        played = Played()
        assert played.feed(first, second[:cut], is_all=True) == (len(first), Status.MORE)
        assert played.walk.wanted == wanted
        assert played.walk.expected == 2
        assert played.feed(second, position=len(first)) == (len(second), Status.MORE)
        assert played.walk.cut(0).records == 4


@pytest.mark.parametrize("position", [0, 11, 16, 17, 20, 22, 26, 60, 80])
def test_a_flipped_bit_stops_a_walk(position: int) -> None:
    data = bytearray(make_batch(0, 2))
    data[position] ^= 0x80
    played = Played()
    at, status = played.feed(bytes(data), is_all=True)
    assert at == 0 or position == 0
    assert status in (Status.ODD, Status.MORE, Status.DONE) or position == 0
    if position in (16, 17, 20, 22, 26, 60, 80):
        assert status is Status.ODD


def test_a_length_below_that_of_a_header_is_no_batch() -> None:
    data = bytearray(make_batch(0, 2))
    data[8:12] = (48).to_bytes(4, "big")
    assert Played().feed(bytes(data)) == (0, Status.ODD)
    data[8:12] = (49).to_bytes(4, "big")
    assert Played().feed(bytes(data)) == (0, Status.ODD), "its checksum is wrong"


def test_an_empty_batch_of_the_cleaner_is_a_batch() -> None:
    """One that keeps a producer's last sequence: no record, and offsets all the same."""
    empty = counted(0, 1, 2)
    assert walked(empty).missing == 2
    assert walked(counted(0, 2, 1)).missing == 0


def test_a_walk_ends_before_its_end() -> None:
    batches = [make_batch(0, 2), make_batch(2, 2), make_batch(4, 2)]
    played = Played(end=4)
    assert played.feed(*batches) == (len(batches[0]) * 2, Status.DONE)
    played = Played(end=3)
    assert played.feed(*batches) == (len(batches[0]) * 2, Status.DONE), "a batch counts where it begins"
    played = Played(end=2)
    assert played.feed(*batches) == (len(batches[0]), Status.DONE)
    played = Played(end=0)
    assert played.feed(*batches) == (0, Status.DONE)


# Gaps and wrong offsets.


def test_a_gap_is_named_once_the_next_batch_confirms_it() -> None:
    first, behind, next_one = make_batch(0, 2), make_batch(5, 2), make_batch(7, 1)
    played = Played()
    assert played.feed(first, behind) == (len(first), Status.MORE), "it may as well be a wrong number"
    assert played.walk.wanted == len(behind) + HEADER_BYTES
    played.feed(behind, next_one, position=len(first))
    found = played.walk.cut(0)
    assert found.gaps == (OffsetGap(2, 5, BytePlace(PATH, len(first))),)
    assert (found.last_gap, found.next_offset, found.records) == (5, 8, 5)
    assert played.walk.whole_from == 8, "of the next stretch"
    assert played.findings == []


@pytest.mark.parametrize(
    ("following", "is_wrong"),
    [(None, False), (7, False), (8, False), (4, True), (5, True), (6, False), (3, True)],
)
def test_the_last_batch_of_a_file_is_compared_with_the_next_file(following: int | None, is_wrong: bool) -> None:
    first, behind = make_batch(0, 2), make_batch(5, 2)
    played = Played()
    played.feed(first, behind, following=following, is_all=True)
    found = played.walk.cut(0)
    assert bool(played.findings) is is_wrong
    assert found.next_offset == (4 if is_wrong else 7)
    assert bool(found.gaps) is not is_wrong


@pytest.mark.parametrize("wrong", [0, 1, 9])
def test_a_wrong_base_offset_is_found_and_the_right_one_used(wrong: int) -> None:
    first, third = make_batch(0, 2), make_batch(4, 2)
    second = bytearray(make_batch(2, 2))
    second[:8] = wrong.to_bytes(8, "big")
    played = Played()
    played.walk.headers = []
    played.feed(first, bytes(second), third, position=100)
    assert played.texts() == [
        (DAMAGE, OFFSETS, 100 + len(first), 2, f"a batch's base offset is {wrong} instead of 2"),
    ]
    found = played.walk.cut(0)
    assert (found.next_offset, found.gaps, found.records) == (6, (), 6)
    assert [(at, header.base_offset) for at, header in played.walk.headers] == [
        (100, 0),
        (100 + len(first), 2),
        (100 + 2 * len(first), 4),
    ]


def test_a_batch_beyond_the_end_ends_the_walk_unless_its_number_is_wrong() -> None:
    first, second, third = make_batch(0, 2), bytearray(make_batch(2, 2)), make_batch(4, 2)
    second[:8] = (90).to_bytes(8, "big")
    played = Played(end=50)
    assert played.feed(first, bytes(second), third)[1] is Status.MORE
    assert [each.offset for each in played.findings] == [2]
    played = Played(end=50)
    assert played.feed(first, make_batch(90, 2), make_batch(92, 1)) == (len(first), Status.DONE)
    assert played.findings == []
    played = Played(end=50)
    assert played.feed(make_batch(90, 1)) == (0, Status.DONE), "nothing is expected at a beginning"


def test_a_walk_begins_with_its_first_batch_or_at_the_given_position() -> None:
    assert walked(make_batch(5, 2), start=3).start == 5
    played = Played(3)
    played.walk.expected = 5
    played.feed(make_batch(5, 2))
    assert played.walk.cut(0).start == 3
    assert Played(3).walk.cut(0) == Stretch(3, 3)


# Damage.


def test_damaged_bytes_are_reported_and_the_next_batch_follows_them() -> None:
    first, third = make_batch(0, 2), make_batch(4, 2)
    header = headers_of(make_batch(2, 2))[0]
    played = Played()
    played.feed(first)
    played.walk.skip_damaged(header, 70, "bad", BytePlace(PATH, 9))
    assert played.texts() == [(DAMAGE, BYTES, 9, 2, "bad")]
    played.feed(third, position=len(first) + 70)
    found = played.walk.cut(0)
    assert (found.size_bytes, found.batches, found.records) == (len(first) + 70 + len(third), 2, 4)
    assert (found.damaged, found.last_gap, found.gaps) == (((2, 4),), 4, ())
    assert found.epochs == ((0, 0, 1), (0, 4, 5))
    assert len(played.findings) == 1


def test_after_bytes_of_which_nothing_is_known_the_next_batch_says_how_much_is_damaged() -> None:
    played = Played()
    played.feed(make_batch(0, 2))
    played.walk.skip_damaged(None, 70, "zeros", BytePlace(PATH, 9))
    played.feed(make_batch(6, 2))
    found = played.walk.cut(0)
    assert (found.damaged, found.last_gap, found.gaps, found.next_offset) == (((2, 6),), 6, (), 8)
    assert [each.offset for each in played.findings] == [2]


def test_damage_at_the_end_and_at_the_beginning() -> None:
    played = Played()
    played.walk.skip_damaged(None, 70, "zeros", BytePlace(PATH, 0))
    assert [each.offset for each in played.findings] == [-1]
    played.feed(make_batch(6, 2))
    assert played.walk.cut(0).damaged == ((0, 0),)
    played = Played(end=5)
    played.feed(make_batch(0, 2))
    played.walk.skip_damaged(None, 70, "zeros", BytePlace(PATH, 9))
    assert played.feed(make_batch(6, 2), make_batch(8, 1))[1] is Status.DONE
    assert played.walk.cut(0).damaged == ((2, 6),)


def test_a_batch_with_more_records_than_offsets_is_damaged() -> None:
    header = headers_of(make_batch(0, 3))[0]
    data = bytearray(make_batch(0, 3))
    data[23:27] = (1).to_bytes(4, "big")
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    played = Played()
    played.feed(bytes(data), is_all=True)
    assert header.record_count == 3
    assert played.texts() == [(DAMAGE, BYTES, 0, 0, "3 records in 2 offsets")]
    assert played.walk.cut(0).missing == 0


def test_offsets_without_a_record_are_counted() -> None:
    first = make_batch(0, 2)
    found = walked(first, counted(2, 2, 4), counted(7, 1, 1), make_batch(9, 1))
    assert (found.missing, found.missing_to) == (3 + 1, 9)
    assert found.missing_place.byte == len(first) + len(counted(2, 2, 4))
    assert (found.records, found.next_offset, found.gaps) == (2 + 2 + 1 + 1, 10, ())


# Epochs and windows.


def test_leader_epochs_are_noted_with_their_first_and_last_offset() -> None:
    batches = [make_batch(base, 2, leader_epoch=epoch) for base, epoch in ((0, 3), (2, 3), (4, 5), (6, 4))]
    assert walked(*batches).epochs == ((3, 0, 3), (5, 4, 5), (4, 6, 7))


def entries_of(*batches: bytes) -> bytes:
    return b"".join(each[:12] + each[16:61] for each in batches)


def test_windows_hold_the_headers_without_the_leader_epoch() -> None:
    batches = [make_batch(base, 3, leader_epoch=base) for base in range(0, 30, 3)]
    found = walked(*batches)
    bases = [[0, 3, 6], [9, 12, 15], [18, 21], [24, 27]]
    assert [(each.number, each.base, each.next_offset, each.batches, each.records) for each in found.windows] == [
        (number, its[0], its[-1] + 3, len(its), 3 * len(its)) for number, its in enumerate(bases)
    ]
    contents = [entries_of(*[batches[base // 3] for base in its]) for its in bases]
    assert [each.entries for each in found.windows] == [contents[0], b"", b"", contents[3]], "the outer two stay open"
    assert [each.digest for each in found.windows[1:3]] == [sha256(each).digest() for each in contents[1:3]]
    sealed = found.finished().windows
    assert [each.digest for each in sealed] == [sha256(each).digest() for each in contents]
    assert all(each.entries == b"" for each in sealed)


def test_a_deep_walk_takes_every_byte() -> None:
    batch = make_batch(0, 2)
    played = Played(deep=True)
    played.feed(batch)
    (window,) = played.walk.cut(0).windows
    assert window.entries == entries_of(batch) + sha256(batch[:12] + batch[16:]).digest()


def test_a_window_without_a_batch_is_not_there() -> None:
    found = walked(make_batch(0, 2), make_batch(2, 20), make_batch(22, 1))
    assert [each.number for each in found.windows] == [0, 2]
    assert walked(make_batch(0, 8)).windows[0].next_offset == 8


def test_roots_are_those_of_a_merkle_tree() -> None:
    leaves = [AuditWindow(number, number * 8, number * 8 + 8, 1, 8, bytes([number]) * 32) for number in range(3)]
    hashes = [each.leaf for each in leaves]
    assert root([]) == sha256(b"").digest()
    assert root(leaves[:1]) == hashes[0]
    two = sha256(b"\1" + hashes[0] + hashes[1]).digest()
    assert root(leaves[:2]) == two
    assert root(leaves) == sha256(b"\1" + two + hashes[2]).digest()
    for field, value in (("base", 1), ("next_offset", 9), ("batches", 2), ("records", 9), ("digest", bytes(32))):
        assert (
            leaves[0]._replace(**{field: value}).leaf != hashes[0] or leaves[0]._replace(**{field: value}) == leaves[0]
        )


# Producers and transactions.


def test_a_producers_first_and_last_batch_are_kept() -> None:
    first = make_batch(0, 2)
    found = walked(first, of_producer(2, 0, 2), of_producer(4, 2, 3, timestamp=NOW_MS + 9))
    assert found.runs == {7: ProducerRun(0, 0, 2, BytePlace(PATH, len(first)), False, 0, 4, 6, NOW_MS + 11)}
    assert found.breaks == ()


@pytest.mark.parametrize(
    ("last", "following", "text"),
    [
        ((0, 4), (0, 5), ""),
        ((0, 4), (0, 6), "sequence 6 follows 4 of epoch 0"),
        ((0, 4), (0, 4), "sequence 4 follows 4 of epoch 0"),
        ((0, 4), (1, 0), ""),
        ((0, 4), (1, 5), "epoch 1 begins with sequence 5 instead of 0"),
        ((1, 4), (0, 5), "epoch 0 follows epoch 1"),
        ((0, 2**31 - 1), (0, 0), ""),
        ((0, 2**31 - 1), (0, 1), "sequence 1 follows 2147483647 of epoch 0"),
        ((3, FRESH), (3, 0), ""),
        ((3, FRESH), (3, 4), "epoch 3 begins with sequence 4 instead of 0"),
        ((3, UNKNOWN), (3, 4), ""),
        ((3, UNKNOWN), (4, 4), ""),
        ((3, UNKNOWN), (2, 4), "epoch 2 follows epoch 3"),
        ((3, UNKNOWN), (4, 0), ""),
    ],
)
def test_a_producers_sequence_goes_on_or_begins_at_0(
    last: tuple[int, int], following: tuple[int, int], text: str
) -> None:
    assert sequence_break(*last, *following) == text


def comparable(found: Stretch) -> Stretch:
    """The facts of a whole log. The place of a gap between two stretches is not known."""
    gaps = tuple(gap._replace(place=BytePlace()) for gap in found.gaps)
    breaks = tuple(sorted(found.breaks, key=lambda each: each.offset))
    return found.finished()._replace(gaps=gaps, breaks=breaks)


def in_pieces(batches: Sequence[bytes], *seams: int) -> Stretch:
    """The facts of stretches that meet at these batches, joined."""
    bounds = [0, *sorted(seams), len(batches)]
    found = []
    for begin, end in pairwise(bounds):
        if begin < end:
            position = sum(map(len, batches[:begin]))
            start = 0 if not begin else headers_of(batches[begin])[0].base_offset
            found.append(walked(*batches[begin:end], start=start, position=position))
    joined = join(reversed(found))
    assert joined is not None
    return comparable(joined)


def breaks_of(*batches: bytes) -> list[tuple[int, str]]:
    """The breaks of a log, which are the same in one stretch and in two, wherever they meet."""
    whole = walked(*batches)
    for seam in range(1, len(batches)):
        assert in_pieces(batches, seam) == comparable(whole), seam
    return [(each.offset, each.text) for each in whole.breaks]


def test_breaks_of_a_sequence_are_named_where_they_are() -> None:
    assert breaks_of(of_producer(0, 0), of_producer(1, 1), of_producer(2, 5)) == [
        (2, "sequence 5 follows 1 of epoch 0")
    ]
    assert breaks_of(of_producer(0, 5), of_producer(1, 6)) == [], "its beginning is deleted"
    assert breaks_of(of_producer(0, 0, epoch=1), of_producer(1, 1)) == [(1, "epoch 0 follows epoch 1")]


def marker(offset: int, *, commit: bool = True, epoch: int = 0) -> bytes:
    return make_marker(offset, 7, commit=commit, producer_epoch=epoch)


def test_markers_say_which_epoch_a_producer_has() -> None:
    raised = "epoch 0 follows epoch 2"
    log = [of_producer(0, 0), marker(1, epoch=2), of_producer(2, 5, epoch=1), marker(3), of_producer(4, 6, epoch=1)]
    assert breaks_of(*log) == [(2, "epoch 1 follows epoch 2")]
    assert breaks_of(of_producer(0, 0), marker(1, epoch=2), of_producer(2, 0, epoch=2)) == []
    assert breaks_of(of_producer(0, 0), marker(1, epoch=2), of_producer(2, 1)) == [(2, raised)]
    assert breaks_of(of_producer(0, 0), marker(1), of_producer(2, 1)) == [], "the same epoch goes on"
    assert breaks_of(of_producer(0, 0), marker(1), of_producer(2, 7)) == [(2, "sequence 7 follows 0 of epoch 0")]
    fresh = breaks_of(of_producer(0, 0), marker(1, epoch=2), of_producer(2, 3, epoch=2))
    assert fresh == [(2, "epoch 2 begins with sequence 3 instead of 0")]


def test_a_marker_alone_tells_the_epoch_and_no_sequence() -> None:
    assert breaks_of(marker(0, epoch=3), of_producer(1, 9, epoch=3)) == []
    assert breaks_of(marker(0, epoch=3), of_producer(1, 0, epoch=4)) == []
    assert breaks_of(marker(0, epoch=3), of_producer(1, 9, epoch=2)) == [(1, "epoch 2 follows epoch 3")]
    assert breaks_of(marker(0, epoch=3), of_producer(1, 9, epoch=4)) == []
    assert breaks_of(marker(0, epoch=3), marker(1, epoch=4), of_producer(2, 9, epoch=4)) == []
    (found,) = walked(marker(0, epoch=3), of_producer(1, 9, epoch=2)).breaks
    assert (found.producer_id, found.offset, found.text) == (7, 1, "epoch 2 follows epoch 3")
    assert found.place == BytePlace(PATH, len(marker(0)))
    run = walked(marker(0, epoch=3), of_producer(1, 9, epoch=3)).runs[7]
    assert (run.first_sequence, run.first_offset, run.sequence) == (9, 1, 9)


def test_a_gap_excuses_a_sequence_that_jumps_over_it() -> None:
    jump = [of_producer(0, 0), make_batch(5, 1), make_batch(6, 1), of_producer(7, 4), make_batch(8, 1)]
    assert breaks_of(*jump) == []
    before = [make_batch(0, 1), make_batch(5, 1), of_producer(6, 0), of_producer(7, 4), make_batch(8, 1)]
    assert breaks_of(*before) == [(7, "sequence 4 follows 0 of epoch 0")], "the gap lies before both"
    falls = [of_producer(0, 0, epoch=1), make_batch(5, 1), make_batch(6, 1), of_producer(7, 4), make_batch(8, 1)]
    assert breaks_of(*falls) == [(7, "epoch 0 follows epoch 1")], "no lost batch makes an epoch fall"
    at = [of_producer(0, 0), make_batch(1, 1), make_batch(5, 1), of_producer(6, 1), of_producer(7, 9)]
    assert breaks_of(*at) == [(7, "sequence 9 follows 1 of epoch 0")]
    assert walked(*before[:3], make_batch(7, 1)).runs[7].behind_gap
    assert not walked(of_producer(0, 0)).runs[7].behind_gap


def transactional(base: int, sequence: int = 0, *, epoch: int = 0, count: int = 1) -> bytes:
    return of_producer(base, sequence, count, epoch=epoch, transactional=True)


def test_transactions_are_open_until_their_marker() -> None:
    begun = walked(make_batch(0, 1), transactional(1), transactional(2, 1))
    assert begun.open == {7: Open(1, 0, NOW_MS)}
    done = walked(make_batch(0, 1), transactional(1), marker(2))
    assert (done.open, done.heads, done.committed) == ({}, {7: Head(1, 2, True)}, 0)
    assert done.finished().committed == 1
    again = walked(
        transactional(0), marker(1), transactional(2, 1), marker(3), transactional(4, 2), marker(5, commit=False)
    )
    assert (again.heads, again.committed, again.aborted) == ({7: Head(0, 1, True)}, 1, (AbortedStretch(7, 4, 5),))
    assert list(again.listed_markers()) == [SeenMarker(7, 0, offset != 5, offset, NOW_MS) for offset in (1, 3, 5)]


def test_a_marker_without_records_ends_what_began_before_the_stretch() -> None:
    found = walked(
        marker(0, commit=False), transactional(1), marker(2, commit=False), marker(3), marker(4, commit=False)
    )
    assert found.heads == {7: Head(-1, 0, False)}
    assert (found.aborted, found.committed) == ((AbortedStretch(7, 1, 2),), 0), "markers of nothing count as nothing"
    assert found.finished().aborted == (AbortedStretch(7, 1, 2),)
    assert found.finished().committed == 0


def test_joined_stretches_know_the_transactions_that_cross_their_seams() -> None:
    log = [
        transactional(0), marker(1), transactional(2, 1), make_batch(3, 1), marker(4, commit=False),
        transactional(5, 2), marker(6), marker(7), transactional(8, 3),
    ]  # fmt: skip
    whole = walked(*log).finished()
    assert (whole.committed, whole.aborted, whole.open) == (2, (AbortedStretch(7, 2, 4),), {7: Open(8, 0, NOW_MS)})
    for one in range(1, len(log)):
        for two in range(one, len(log)):
            assert in_pieces(log, one, two) == comparable(walked(*log))


def test_joined_stretches_have_all_facts_of_the_log() -> None:
    other = make_batch(5, 2, producer_id=8, base_sequence=0, leader_epoch=1, timestamp=NOW_MS + 50)
    log = [
        make_batch(0, 2), of_producer(2, 0, 2), marker(4, epoch=1), other, of_producer(7, 4, epoch=1, leader_epoch=2),
        make_batch(8, 1, producer_id=8, base_sequence=2, leader_epoch=2), counted(9, 1, 2), make_batch(15, 3),
        of_producer(18, 9, epoch=1), make_marker(19, 9, commit=True, producer_epoch=4),
        make_batch(20, 1, producer_id=9, producer_epoch=4, base_sequence=3), marker(21, epoch=1),
        make_marker(22, 8, commit=False, producer_epoch=0, timestamp=NOW_MS + 60),
        make_batch(23, 1, producer_id=8, base_sequence=3), of_producer(24, 0, epoch=0), make_batch(25, 9),
    ]  # fmt: skip
    whole = walked(*log)
    assert [(each.offset, each.text) for each in whole.breaks] == [
        (7, "epoch 1 begins with sequence 4 instead of 0"),
        (24, "epoch 0 follows epoch 1"),
    ]
    for one in range(1, len(log)):
        for two in range(one, len(log)):
            assert in_pieces(log, one, two) == comparable(whole), (one, two)


def test_the_seam_of_two_stretches_may_be_a_gap() -> None:
    first, last = walked(make_batch(0, 2)), walked(make_batch(5, 2, timestamp=NOW_MS + 9), start=5)
    found = join([last, first])
    assert found is not None
    assert (found.gaps, found.last_gap, found.start, found.next_offset) == ((OffsetGap(2, 5, BytePlace()),), 5, 0, 7)
    assert (found.first_timestamp, found.max_timestamp) == (NOW_MS + 1, NOW_MS + 10)
    assert join([]) is None
    nothing = Stretch(0, 0)
    found = join([nothing, walked(make_batch(0, 2))])
    assert found is not None
    assert (found.first_timestamp, found.gaps) == (NOW_MS + 1, ())


def test_facts_of_two_stretches_are_added() -> None:
    one = Stretch(
        0,
        5,
        missing=2,
        missing_to=4,
        missing_place=BytePlace("a", 1),
        damaged=((1, 2),),
        breaks=(Break(1, 1, "x", BytePlace()),),
    )
    two = Stretch(
        5,
        9,
        missing=3,
        missing_to=8,
        missing_place=BytePlace("b", 1),
        damaged=((6, 7),),
        breaks=(Break(1, 6, "y", BytePlace()),),
    )
    found = join([one, two])
    assert found is not None
    assert (found.missing, found.missing_to, found.missing_place) == (5, 8, BytePlace("b", 1))
    assert found.damaged == ((1, 2), (6, 7))
    assert [each.offset for each in found.breaks] == [1, 6]
    found = join([one, two._replace(missing=0, missing_to=-1)])
    assert found is not None
    assert (found.missing, found.missing_to, found.missing_place) == (2, 4, BytePlace("a", 1))
    found = join([one, two._replace(missing=1, missing_to=0)])
    assert found is not None
    assert found.missing_place == BytePlace("b", 1)


def test_a_control_batch_that_cannot_be_read_is_damage() -> None:
    batch = build_batch(
        [Record(timestamp=NOW_MS, key=None, value=b"")], base_offset=0, producer_id=7, producer_epoch=0,
        transactional=True, control=True,
    )  # fmt: skip
    played = Played()
    played.feed(batch)
    ((level, claim, byte, offset, text),) = played.texts()
    assert (level, claim, byte, offset) == (DAMAGE, BYTES, 0, 0)
    assert text.startswith("a control batch cannot be read: ")


def test_findings_read_over_the_network_have_no_file_position() -> None:
    findings: list[AuditFinding] = []
    walk = AuditWalk(Of("r", "t", 0), findings.append, 0)
    walk.feed(make_batch(0, 2) + make_batch(5, 2) + of_producer(7, 0), 100, is_all=True)
    found = walk.cut(0)
    assert found.gaps == (OffsetGap(2, 5, BytePlace()),)
    assert found.runs[7].first_place == BytePlace()


def test_the_walk_goes_on_in_another_stretch() -> None:
    played = Played()
    played.feed(make_batch(0, 2), of_producer(2, 0))
    first = played.walk.cut(8)
    assert (first.next_offset, first.records) == (3, 3)
    played.feed(make_batch(8, 1), make_batch(9, 1))
    second = played.walk.cut(0)
    assert (second.start, second.next_offset, second.records, second.runs) == (8, 10, 2, {})
    assert windows.joined((), second.windows) == second.windows
