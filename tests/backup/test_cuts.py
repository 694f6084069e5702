"""The transactions of a cut, and the batches that are read up to it."""

import pytest

from kpybroker.machines.backup.cut import SeenTransactions, decide
from kpybroker.machines.backup.manifest import BegunTransaction, ReadMarker, TransactionEnd
from kpybroker.machines.backup.stretch import BatchStretch, CutOffsets
from kpywire.control_record import marker_batch
from kpywire.errors import Malformed
from kpywire.record import Record, build_batch

P, Q, R = ("orders", 0), ("orders", 1), ("payments", 0)
OPEN = BegunTransaction(7, 3, 100)


def seen(
    *open_now: BegunTransaction, before: tuple[BegunTransaction, ...] = (), markers: tuple[ReadMarker, ...] = ()
) -> SeenTransactions:
    return SeenTransactions(
        {each.producer_id: each for each in open_now}, {each.producer_id: each for each in before}, markers
    )


def test_an_open_transaction_is_aborted() -> None:
    decided = decide({P: seen(OPEN, before=(OPEN,)), Q: seen()}, frozenset())
    assert decided == ({P: (TransactionEnd(7, 3, is_commit=False),)}, {}, ())


def test_a_transaction_that_was_being_committed_is_committed_where_its_marker_is_missing() -> None:
    marker = ReadMarker(40, 7, 4, 3, is_commit=True)
    decided = decide({P: seen(OPEN, before=(OPEN,)), Q: seen(markers=(marker,))}, frozenset({7}))
    assert decided == ({P: (TransactionEnd(7, 3, is_commit=True),)}, {}, ())


def test_the_next_transaction_of_a_producer_whose_last_one_was_being_committed_is_aborted() -> None:
    following = BegunTransaction(7, 4, 120)
    decided = decide({P: seen(following, before=(OPEN,))}, frozenset({7}))
    assert decided.ends == {P: (TransactionEnd(7, 4, is_commit=False),)}


def test_a_commit_marker_of_a_transaction_that_the_cut_splits_is_overturned() -> None:
    own, earlier = ReadMarker(40, 7, 4, 3, is_commit=True), ReadMarker(30, 7, 3, 2, is_commit=True)
    aborted, other = ReadMarker(50, 7, 4, 3, is_commit=False), ReadMarker(60, 8, 4, 3, is_commit=True)
    empty = ReadMarker(70, 7, 4, -1, is_commit=True)
    decided = decide({P: seen(OPEN), Q: seen(markers=(earlier, own, aborted, other, empty)), R: seen()}, frozenset())
    assert decided.overturned == {Q: (own,)}
    assert decided.doubtful == ()


def test_a_marker_that_may_be_of_an_earlier_transaction_stays_and_its_producer_is_reported() -> None:
    marker = ReadMarker(40, 7, 3, 3, is_commit=True)
    decided = decide({P: seen(OPEN), Q: seen(markers=(marker,))}, frozenset())
    assert decided.overturned == {}
    assert decided.doubtful == (7,)
    here = decide({P: seen(OPEN, markers=(marker,))}, frozenset())  # it ended what was before the open one
    assert here.doubtful == ()


def batch(offset: int, *, producer_id: int = -1, count: int = 1) -> bytes:
    records = [Record(timestamp=offset, value=b"v")] * count
    in_transaction = producer_id >= 0
    return build_batch(
        records,
        base_offset=offset,
        partition_leader_epoch=2,
        producer_id=producer_id,
        producer_epoch=3 if in_transaction else -1,
        base_sequence=0 if in_transaction else -1,
        transactional=in_transaction,
    )


def marker(offset: int, *, commit: bool) -> bytes:
    return bytes(marker_batch(offset, 2, 5, commit=commit, coordinator_epoch=0, producer_id=7, producer_epoch=4))


def test_open_transactions_are_known_at_each_end() -> None:
    stretch = BatchStretch(0, (), CutOffsets(4, 5, 8))
    found = batch(0, count=3) + batch(3, producer_id=7) + batch(4) + marker(5, commit=True) + batch(7, producer_id=7)
    assert stretch.take(found + batch(8)) == len(found)
    assert stretch.next_offset == 8
    assert stretch.open_before == {7: BegunTransaction(7, 3, 3)}
    assert stretch.open == {7: BegunTransaction(7, 3, 7)}
    assert stretch.markers == [ReadMarker(5, 7, 4, 3, is_commit=True)]
    assert (stretch.leader_epoch, stretch.max_timestamp, stretch.max_producer_id, stretch.gap_end) == (2, 7, 7, 7)


def test_a_stretch_goes_on_with_the_open_transactions_of_the_last_piece() -> None:
    stretch = BatchStretch(4, (OPEN,), CutOffsets(4, 4, 6))
    assert stretch.open_before == {7: OPEN}
    stretch.take(batch(4) + marker(5, commit=False))
    assert stretch.open == {}
    skipped = BatchStretch(4, (OPEN,), CutOffsets(10, 10, 20))
    skipped.skip_to(12)
    assert (skipped.open, skipped.open_before) == ({}, {})


def test_a_gap_at_the_end_is_passed() -> None:
    stretch = BatchStretch(0, (), CutOffsets(5, 5, 9))
    stretch.take(batch(0, producer_id=7))
    stretch.finish()
    assert (stretch.next_offset, stretch.gap_end) == (9, -1)
    assert stretch.open_before == stretch.open == {7: BegunTransaction(7, 3, 0)}


def test_a_new_count_has_only_the_batches_that_are_read_after_it_began() -> None:
    stretch = BatchStretch(0, (), CutOffsets(9, 9, 9))
    assert (stretch.max_timestamp, stretch.max_producer_id, stretch.gap_end, stretch.leader_epoch) == (-1, -1, -1, -1)
    stretch.take(batch(0, producer_id=7) + batch(2))
    assert (stretch.max_timestamp, stretch.max_producer_id, stretch.gap_end) == (2, 7, 2)
    stretch.begin_count()
    assert (stretch.max_timestamp, stretch.max_producer_id, stretch.gap_end) == (-1, -1, -1)
    stretch.take(batch(3))
    assert (stretch.max_timestamp, stretch.max_producer_id, stretch.gap_end, stretch.leader_epoch) == (3, -1, -1, 2)


def test_damaged_batches_and_those_that_were_read_are_refused() -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    with pytest.raises(Malformed, match="the batch at offset 0 has a wrong CRC"):
        BatchStretch(0, (), CutOffsets(9, 9, 9)).take(damaged)
    with pytest.raises(Malformed, match="a batch at offset 0 comes after offset 4"):
        BatchStretch(5, (), CutOffsets(9, 9, 9)).take(batch(0))
    with pytest.raises(Malformed, match="a batch at offset 4 comes after offset 4"):
        BatchStretch(5, (), CutOffsets(9, 9, 9)).take(batch(4))
    assert BatchStretch(5, (), CutOffsets(9, 9, 9)).take(b"") == 0
    assert BatchStretch(5, (), CutOffsets(9, 9, 9)).take(batch(9)) == 0
