"""The progress log of mirrors, and the markers that a leader holds back."""

from kpybroker.machines.mirror import progress
from kpybroker.machines.mirror.cuts import HeldMarker, LeaderReport
from kpybroker.machines.mirror.held_markers import HeldMarkers
from kpybroker.machines.mirror.progress import CutPart, Finder, MirrorWords, PartReport, Progress
from kpywire.control_record import marker_batch
from kpywire.record import Record, build_batch

A, B = (b"a" * 16, 0), (b"b" * 16, 3)
FINDER = Finder("1-5", holds=True)
REPORT = LeaderReport(4, 10, 30, 40, (HeldMarker(12, 7, 1), HeldMarker(20, 8, 0, is_empty=True)))


def after(*records: bytes) -> Progress:
    known = Progress()
    for record in records:
        known.apply(record)
    return known


def test_the_larger_of_two_places_counts() -> None:
    known = after(progress.places({A: 5, B: 9}), progress.places({A: 7, B: 2}))
    assert known.places == {A: 7, B: 9}


def test_places_after_a_cut_do_not_count_in_its_topics() -> None:
    known = after(progress.places({A: 5}), progress.cut([A[0]]), progress.places({A: 7, B: 2}))
    assert known.places == {A: 5, B: 2}
    assert known.cut == {A[0]}


def test_a_forgotten_topic_leaves_nothing() -> None:
    known = after(
        progress.places({A: 5, B: 2}), progress.cut([A[0], B[0]]), progress.done(A, CutPart(5, 3)),
        progress.done(B, CutPart(2, 0)), progress.forget(A[0]),
    )  # fmt: skip
    assert (known.places, known.cut, known.done) == ({B: 2}, {B[0]}, {B: CutPart(2, 0)})


def test_a_report_is_read_as_it_was_written() -> None:
    known = after(progress.begin("dr", FINDER))
    parts = [PartReport(A, REPORT)]
    assert known.apply(progress.report("dr", FINDER.token, parts)) == ("dr", FINDER.token, parts)
    assert known.reported == {"dr": {A}}
    known.apply(progress.begin("dr", FINDER))
    assert known.reported == {"dr": {A}}
    known.apply(progress.report("dr", "another", [PartReport(B, REPORT)]))
    assert known.reported == {"dr": {A}}
    known.apply(progress.begin("dr", Finder("2-6", holds=False)))
    assert known.reported == {}


def test_records_that_somebody_else_wrote_are_passed_over() -> None:
    known = after(
        b"", b"x", b"[]", b'["places"]', b'["places",[["zz",0,1]]]', b'["done","00"]', b"\xff", b"5", b"[null]"
    )
    assert vars(known) == vars(Progress())


def test_a_shorter_log_leads_to_the_same_conclusions() -> None:
    known = after(
        progress.begin("dr", FINDER), progress.want("dr", True), progress.places({A: 5, B: 2}), progress.cut([A[0]]),
        progress.done(A, CutPart(5, 3)), progress.state("dr", MirrorWords("a problem", {A: "it waits"})),
    )  # fmt: skip
    assert vars(after(*known.records())) == vars(known)
    assert known.words == {"dr": MirrorWords("a problem", {A: "it waits"})}
    assert after(*Progress().records()).records() == []


def data(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
    records = [Record(timestamp=1, value=b"v")]
    return build_batch(
        records,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def marker(offset: int, producer_id: int, *, commit: bool = True) -> bytes:
    made = marker_batch(offset, 0, 1, commit=commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=2)
    return bytes(made)


LOG = (
    data(0, 7) + data(1, 8) + marker(2, 8, commit=False) + marker(3, 7) + data(4, 9, transactional=False) + marker(5, 7)
)


def test_only_commit_markers_are_held() -> None:
    held = HeldMarkers(0)
    assert held.limit == 0
    held.read(LOG, 6)
    assert list(held.between(0, 6)) == [HeldMarker(3, 7, 2), HeldMarker(5, 7, 2, is_empty=True)]
    assert list(held.between(3, 5)) == [HeldMarker(3, 7, 2)]
    assert (held.limit, held.listed_to, held.count) == (3, 6, 2)


def test_released_markers_hold_nothing_back() -> None:
    held = HeldMarkers(0)
    held.read(LOG, 6)
    held.release(4)
    assert (held.limit, held.released_to) == (5, 4)
    held.release(3)
    assert held.released_to == 4
    held.release(6)
    assert held.limit == 6
    held.release(9)
    assert (held.limit, held.listed_to) == (9, 9)


def test_batches_beyond_the_end_and_before_the_first_are_passed_over() -> None:
    held = HeldMarkers(4)
    held.read(LOG, 5)
    assert (held.count, held.listed_to) == (0, 5)
    held.read(LOG, 6)
    held.read(LOG, 6)
    assert list(held.between(0, 9)) == [HeldMarker(5, 7, 2, is_empty=True)]


def test_a_full_list_goes_on_when_markers_are_released() -> None:
    held = HeldMarkers(0, most=1)
    held.read(LOG, 6)
    assert held.is_full
    assert (held.count, held.listed_to, held.limit) == (1, 4, 3)
    held.release(4)
    assert not held.is_full
    held.read(LOG, 6)
    assert (held.count, held.limit) == (1, 5)


def test_a_log_that_is_cut_holds_what_is_left() -> None:
    held = HeldMarkers(0)
    held.read(LOG, 6)
    held.cut(5)
    assert (held.count, held.listed_to, held.limit) == (1, 5, 3)
    held.cut(2)
    assert (held.count, held.listed_to, held.released_to, held.limit) == (0, 2, 0, 2)
    held.read(LOG, 6)
    assert next(held.between(0, 9)).is_empty, "the records before the cut count no more"
