"""Mirrored partitions are held back by each marker whose fellow may be missing, and by no other one."""

from kpybroker.machines.mirror.cuts import HeldMarker, LeaderReport, Place, SettledCut
from kpybroker.machines.mirror.decisions import CommitDecision, Epochs
from kpybroker.machines.mirror.wholeness import Wholeness

A, B = (b"t", 0), (b"t", 1)
P, Q = 7, 8


def report(found: Wholeness, place: Place, first: int, end: int, *markers: HeldMarker, epoch: int = 1) -> bool:
    return found.report(place, LeaderReport(epoch, first, end, end, markers))


def decide(found: Wholeness, producer_id: int) -> None:
    decision = CommitDecision(producer_id, 1, frozenset({("t", 0), ("t", 1)}), has_own_epoch=True)
    found.decided(decision, frozenset({A, B}))


def cut(found: Wholeness, ends: dict[Place, int], unsettled: dict[int, Epochs]) -> None:
    found.cut(SettledCut(found.begin_cut(), ends, unsettled))


def test_a_marker_that_waits_holds_back_the_fellows_of_the_markers_behind_it() -> None:
    found = Wholeness({A: 10, B: 10})
    decide(found, P)
    decide(found, Q)
    report(found, A, 10, 20, HeldMarker(12, P, 1), HeldMarker(14, Q, 1))
    report(found, B, 10, 20, HeldMarker(11, Q, 1))
    assert found.advance() == {A: 12, B: 11}
    assert found.waits() == {A: (HeldMarker(12, P, 1), B), B: (HeldMarker(11, Q, 1), None)}
    report(found, B, 20, 30, HeldMarker(25, P, 1))
    assert found.advance() == {A: 20, B: 30}
    assert found.waits() == {}


def test_a_marker_at_the_end_of_a_cut_is_not_before_it() -> None:
    found = Wholeness({A: 10, B: 10})
    report(found, A, 10, 20, HeldMarker(10, P, 1))
    report(found, B, 10, 20)
    cut(found, {A: 10, B: 10}, {})
    assert found.advance() == {B: 20}


def test_a_marker_waits_for_a_partition_that_no_leader_has_reported_yet() -> None:
    found = Wholeness({A: 10, B: 10})
    decide(found, P)
    report(found, A, 10, 20, HeldMarker(12, P, 1))
    assert found.advance() == {A: 12}


def test_a_partition_gets_its_place_when_the_producers_of_an_earlier_cut_are_settled() -> None:
    found = Wholeness({A: 10})
    ends = {A: 20, B: 20}
    report(found, A, 10, 20)
    before = found.begin_cut()
    report(found, B, 10, 20)
    found.cut(SettledCut(before, ends, {P: Epochs(0, 0)}))
    cut(found, ends, {P: Epochs(0, 0)})
    assert found.advance() == {A: 20}
    cut(found, ends, {Q: Epochs(5, 5)})
    assert found.advance() == {B: 20}


def test_a_cut_that_lacks_a_partition_gives_no_place() -> None:
    found = Wholeness({A: 10})
    report(found, A, 10, 20)
    report(found, B, 10, 20)
    cut(found, {A: 20}, {})
    assert found.advance() == {A: 20}


def test_reports_of_earlier_leaders_and_with_gaps_are_refused() -> None:
    found = Wholeness({A: 10})
    assert report(found, A, 10, 20, epoch=2)
    assert not report(found, A, 20, 30, epoch=1)
    assert not report(found, A, 21, 30, epoch=2)
    assert found.end_of(A) == 0, "its leader has to begin again"


def test_a_forgotten_partition_has_no_place() -> None:
    found = Wholeness({A: 10, B: 10})
    report(found, A, 10, 20)
    found.forget([A])
    assert (found.places, found.end_of(A)) == ({B: 10}, 0)
