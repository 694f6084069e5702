"""Transactions that share an epoch: their markers are counted from a cut on at which their producer was settled."""

from kpybroker.machines.mirror.cuts import HeldMarker, LeaderReport, Place, SettledCut
from kpybroker.machines.mirror.decisions import ANY_EPOCH, CommitDecision, Epochs, SourceDecisions
from kpybroker.machines.mirror.wholeness import Wholeness

A, B = (b"t", 0), (b"t", 1)
BOTH = frozenset({A, B})
P = 7
BUSY = {P: Epochs(0, 0)}


class Mirror:
    """Two partitions with places at 10, and the broker that finds them."""

    def __init__(self) -> None:
        self.wholeness = Wholeness({A: 10, B: 10})
        self.ends = {A: 10, B: 10}
        self.listed = {A: 10, B: 10}
        for place in (A, B):
            self.report(place, 10)

    def report(self, place: Place, end: int, *markers: HeldMarker, epoch: int = 1) -> None:
        first = self.listed[place]
        self.listed[place] = end
        assert self.wholeness.report(place, LeaderReport(epoch, first, end, end, markers))

    def cut(self, ends: dict[Place, int], unsettled: dict[int, Epochs]) -> None:
        self.wholeness.cut(SettledCut(self.wholeness.begin_cut(), ends, unsettled))

    def decide(self, partitions: frozenset[Place] = BOTH) -> None:
        decision = CommitDecision(P, 0, frozenset(("t", index) for _, index in partitions), has_own_epoch=False)
        self.wholeness.decided(decision, partitions)

    def advance(self) -> dict[Place, int]:
        self.wholeness.advance()
        return self.wholeness.places


def marker(offset: int, *, is_empty: bool = False) -> HeldMarker:
    return HeldMarker(offset, P, 0, is_empty)


def settled() -> Mirror:
    """A mirror with a cut at which the producer was settled."""
    made = Mirror()
    made.cut({A: 10, B: 10}, {})
    made.advance()
    return made


def test_a_producer_that_is_never_settled_again_is_passed_by_counting() -> None:
    made = settled()
    for first in (10, 20, 30):
        made.decide()
        made.cut({A: first + 5, B: first + 5}, BUSY)
        made.report(A, first + 10, marker(first + 4))
        assert made.advance() == {A: first + 4, B: first}
        made.report(B, first + 10, marker(first + 6))
        assert made.advance() == {A: first + 10, B: first + 10}


def test_a_marker_at_the_cut_where_the_count_begins_is_counted() -> None:
    made = settled()
    made.decide()
    for place in (A, B):
        made.report(place, 20, marker(10))
    assert made.advance() == {A: 20, B: 20}


def test_a_decision_whose_markers_are_passed_is_counted_no_more() -> None:
    made = settled()
    made.decide()
    made.cut({A: 15, B: 15}, BUSY)
    for place in (A, B):
        made.report(place, 20, marker(14))
    assert made.advance() == {A: 20, B: 20}
    made.decide(frozenset({A}))
    made.report(A, 30, marker(24))
    assert made.advance() == {A: 30, B: 20}


def test_the_second_of_two_markers_waits_for_its_own_fellow() -> None:
    made = settled()
    made.decide()
    made.decide()
    made.report(A, 20, marker(12), marker(14))
    made.report(B, 20, marker(15))
    assert made.advance() == {A: 14, B: 20}
    made.report(B, 30, marker(25))
    assert made.advance() == {A: 20, B: 30}


def test_a_marker_without_records_is_not_counted() -> None:
    made = settled()
    made.decide()
    made.decide()
    made.report(A, 20, marker(12), marker(14))
    made.report(B, 20, marker(15), marker(16, is_empty=True))  # the first one again, perhaps
    assert made.advance() == {A: 12, B: 15}
    made.report(B, 30, marker(25))
    made.cut({A: 20, B: 30}, {})
    assert made.advance() == {A: 20, B: 30}


def test_a_marker_of_another_epoch_ends_the_count() -> None:
    made = settled()
    made.decide()
    made.report(A, 20, HeldMarker(12, P, 1))
    made.report(B, 20, HeldMarker(12, P, 1))
    assert made.advance() == {A: 12, B: 12}


def test_markers_from_before_the_count_are_not_counted() -> None:
    made = Mirror()
    made.report(A, 20, marker(12))
    made.cut({A: 15, B: 15}, {})
    made.decide()
    made.report(B, 14)
    assert made.advance() == {A: 12, B: 14}, "the cut is not reached, so the marker before it is not known to be whole"
    made.report(B, 20, marker(16))
    assert made.advance() == {A: 20, B: 16}, "the marker in the other partition has no fellow yet"
    made.report(A, 30, marker(25))
    assert made.advance() == {A: 30, B: 20}


def test_counting_does_not_begin_while_the_producer_has_an_ending_transaction() -> None:
    made = Mirror()
    made.cut({A: 10, B: 10}, BUSY)
    made.decide()
    made.report(A, 20, marker(12))
    made.report(B, 20, marker(12))
    assert made.advance() == {A: 12, B: 12}


def test_a_partition_with_markers_that_may_be_missing_is_not_counted() -> None:
    made = Mirror()
    made.wholeness = Wholeness({A: 10})
    made.listed = {A: 10, B: 20}
    made.report(A, 10)
    made.cut({A: 10, B: 10}, {})
    made.report(B, 20)
    made.decide()
    made.report(A, 20, marker(12))
    made.report(B, 30, marker(25))  # the first decision's may be below 20
    assert made.advance() == {A: 12}


def test_a_jump_over_markers_that_are_not_listed_ends_the_count() -> None:
    made = settled()
    made.decide()
    assert made.wholeness.report(A, LeaderReport(1, 10, 10, 30, ()))
    assert made.wholeness.report(B, LeaderReport(1, 10, 10, 30, ()))
    made.cut({A: 30, B: 30}, {})
    assert made.advance() == {A: 30, B: 30}
    made.listed = {A: 30, B: 30}
    made.decide()
    made.report(A, 40, marker(32))
    made.report(B, 40, marker(32))
    assert made.advance() == {A: 32, B: 32}


def test_a_partition_gets_its_place_when_all_others_have_passed_the_cut() -> None:
    made = Mirror()
    made.wholeness = Wholeness({A: 10})
    made.listed = {A: 10, B: 20}
    made.report(A, 10)
    made.report(B, 20)
    made.cut({A: 11, B: 20}, {9: Epochs(0, 0)})
    made.report(A, 20, HeldMarker(12, 8, 0), HeldMarker(14, 9, 0))
    made.cut({A: 20, B: 20}, {8: Epochs(0, 0)})
    assert made.advance() == {A: 12}, "producer 9 has a marker behind one that waits, and perhaps its fellow is shown"
    made.cut({A: 20, B: 20}, {})
    assert made.advance() == {A: 20, B: 20}


def test_a_decision_is_pending_until_another_record_of_its_id() -> None:
    decisions = SourceDecisions([("old", 3)])
    assert decisions.take_unsettled() == {3: ANY_EPOCH}
    decisions.apply("new", CommitDecision(4, 2, frozenset(), has_own_epoch=True))
    assert decisions.take_unsettled() == {3: ANY_EPOCH, 4: Epochs(2, 2)}
    decisions.apply("old", None)
    decisions.apply("new", None)
    decisions.apply("new", CommitDecision(4, 3, frozenset(), has_own_epoch=True))
    decisions.apply("new", None)
    assert decisions.take_unsettled() == {3: ANY_EPOCH, 4: Epochs(2, 3)}
    assert decisions.take_unsettled() == {}


def test_a_partition_gets_no_place_before_a_producer_is_settled() -> None:
    made = Mirror()
    made.wholeness = Wholeness({})
    made.listed = {A: 10, B: 10}
    made.report(A, 10)
    made.report(B, 10)
    for _ in range(2):
        made.cut({A: 10, B: 10}, BUSY)
        assert made.advance() == {}
    made.cut({A: 10, B: 10}, {})
    assert made.advance() == {A: 10, B: 10}
