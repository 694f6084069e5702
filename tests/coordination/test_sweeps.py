"""Long work of a shard in slices: every key is visited, in order, and no slice is larger than it may be."""

import pytest

from kpybroker.machines.coordination.decision import CoordinatorDecision
from kpybroker.machines.coordination.pattern import whole_match
from kpybroker.machines.coordination.sweeps import Sweeps
from kpybroker.machines.re2_patterns import InvalidPattern


class Slice(CoordinatorDecision[str]):
    def __init__(self, most_records: int = 1_000) -> None:
        self.records: list[str] = []
        self.replies = []
        self._most = most_records

    @property
    def is_full(self) -> bool:
        return len(self.records) >= self._most


def visit(_shard: object, key: str, decision: CoordinatorDecision[str]) -> bool:
    decision.records.append(key)
    return True


def slice_of(sweeps: Sweeps, work_at_once: int = 100, most_records: int = 1_000) -> list[str]:
    """The keys that one slice visits; each is worth its length."""
    decision = Slice(most_records)
    sweeps.advance(None, decision, work_at_once, len)
    return decision.records


def test_sweeps_are_done_one_after_the_other_and_each_key_once() -> None:
    sweeps = Sweeps()
    sweeps.begin(["a", "b"], visit)
    sweeps.begin([], visit)
    sweeps.begin(["c"], visit)
    assert slice_of(sweeps) == ["a", "b", "c"]
    assert slice_of(sweeps) == []
    assert not sweeps.waiting


def test_a_slice_ends_as_soon_as_its_work_is_done() -> None:
    sweeps = Sweeps()
    sweeps.begin(["aa", "b", "c", "dddd", "e"], visit)
    assert slice_of(sweeps, 3) == ["aa", "b"]
    assert slice_of(sweeps, 3) == ["c", "dddd"]
    assert slice_of(sweeps, 3) == ["e"]


def test_a_slice_ends_when_its_decision_is_full() -> None:
    sweeps = Sweeps()
    sweeps.begin("abc", visit)
    assert slice_of(sweeps, most_records=2) == ["a", "b"]
    assert slice_of(sweeps, most_records=2) == ["c"]


def test_a_key_that_is_not_done_comes_first_again() -> None:
    seen: list[str] = []

    def not_at_once(_shard: object, key: str, _decision: object) -> bool:
        seen.append(key)
        return key != "a" or seen.count("a") == 3

    sweeps = Sweeps()
    sweeps.begin("ab", not_at_once)
    for _ in range(4):
        slice_of(sweeps, 1)
    assert seen == ["a", "a", "a", "b"]


@pytest.mark.parametrize(
    ("deadline_ms", "waits", "expected"),
    [(None, True, 50), (40, True, 40), (60, True, 50), (None, False, None), (60, False, 60), (50, True, 50)],
)
def test_the_next_slice_is_due_unless_something_else_is_earlier(
    deadline_ms: int | None, waits: bool, expected: int | None
) -> None:
    sweeps = Sweeps()
    sweeps.due_ms = 50
    if waits:
        sweeps.begin("a", visit)
    assert sweeps.sooner(deadline_ms) == expected


def test_a_decision_is_full_with_its_first_record() -> None:
    decision: CoordinatorDecision[str] = CoordinatorDecision()
    decision.records, decision.replies = [], []
    assert not decision.is_full
    decision.reply("ticket", "answer")
    assert decision.replies == [("ticket", "answer")]
    assert not decision.is_full
    decision.records.append("record")
    assert decision.is_full


def test_a_pattern_matches_the_whole_of_a_name() -> None:
    matches = whole_match("a+|b")
    assert [matches(name) for name in ("a", "aa", "b", "ab", "ba", "", "a\n")] == [True, True, True, *[False] * 4]
    with pytest.raises(InvalidPattern):
        whole_match("(")


def test_the_first_sweep_of_a_shard_is_due_at_once() -> None:
    sweeps = Sweeps()
    sweeps.begin("a", visit)
    assert sweeps.sooner(1) == 0
