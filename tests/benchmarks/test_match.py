"""How rows are played: the sides in turn, as many rounds as there is time for, again where the machine was slow."""

import io
import os
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest
from rich.console import Console

from benchmarks.figures import Figure
from benchmarks.match import Pair, calmest, play
from benchmarks.pace import LOOPS, Pace, loop_s
from benchmarks.progress import Watch
from benchmarks.rows import RoundError, Row
from benchmarks.rows.row import QUICK
from benchmarks.sides import Side

RATE = Figure("throughput", "records/s", True)


class Idle:
    """Stands for a side: a broker that runs."""

    ended = None
    program = "nothing"

    def __init__(self, letter: str) -> None:
        self.letter = letter


class FixedPace(Pace):
    """Hears how long the loop takes, time and again; calm when it has heard all."""

    def __init__(self, *taken_s: float) -> None:
        super().__init__()
        self.best_s = 1.0
        self.taken_s = list(taken_s)

    def look(self) -> float:
        return self.taken_s.pop(0) if self.taken_s else 1.0

    def wait(self, most_s: float = 0) -> float:  # noqa: ARG002  nobody waits here
        return self.look()


class Scripted(Row):
    """Notes what is done, and fails on side B in a given round."""

    key = title = "scripted"
    figures = (RATE,)

    def __init__(self, fails_in: int | None = None, rounds: int = 3) -> None:
        super().__init__(QUICK._replace(rounds=rounds, uncounted_rounds=1))
        self.done: list[str] = []
        self.fails_in = fails_in

    def open(self, side: Side) -> None:
        self.done.append(f"open {side.letter}")

    def play(self, side: Side) -> dict[str, float]:
        self.done.append(side.letter)
        if side.letter == "B" and self.done.count("B") == self.fails_in:
            raise RoundError("records are missing")
        return {RATE.name: float(len(self.done))}

    def close(self, side: Side) -> None:
        self.done.append(f"close {side.letter}")


@pytest.fixture
def sides() -> tuple[Side, Side]:
    return cast(Any, Idle("A")), cast(Any, Idle("B"))


@pytest.fixture
def watch() -> Watch:
    return Watch(Console(file=io.StringIO()), 6)


def test_the_sides_take_turns_after_a_round_that_does_not_count(sides: tuple[Side, Side], watch: Watch) -> None:
    row = Scripted()
    result = play(row, *sides, watch, pace=FixedPace())
    assert row.done == ["open A", "A", "open B", "B", *"ABABAB", "close A", "close B"]
    assert (len(result.a), len(result.b), result.failure) == (3, 3, None)


def test_the_first_round_is_played_however_late_it_is_and_no_other(sides: tuple[Side, Side], watch: Watch) -> None:
    result = play(Scripted(), *sides, watch, time.monotonic() - 1, FixedPace())
    assert (len(result.a), len(result.b)) == (1, 1)
    assert result.comparison("throughput") is not None


def test_a_row_that_fails_says_where_and_is_closed_on_both_sides(sides: tuple[Side, Side], watch: Watch) -> None:
    row = Scripted(fails_in=2)
    result = play(row, *sides, watch, pace=FixedPace())
    assert result.failure == "on B (nothing): RoundError: records are missing"
    assert result.comparisons() == []
    assert row.done[-2:] == ["close A", "close B"]


def test_rounds_around_which_the_machine_was_slow_are_played_again(sides: tuple[Side, Side], watch: Watch) -> None:
    row = Scripted(rounds=4)
    result = play(row, *sides, watch, pace=FixedPace(1, 1, 1, 1, 1.6, 1, 1, 1, 1.3))
    assert row.done.count("B") == 1 + 6
    assert ([values["throughput"] for values in result.b], result.left_out) == ([6.0, 12.0, 14.0, 16.0], 2)
    assert result.slowness == [1.0, 1.0, 1.0, 1.0]


def test_on_a_machine_that_is_never_calm_the_calmest_rounds_count(sides: tuple[Side, Side], watch: Watch) -> None:
    slow = [each for pair in (1.9, 1.3, 1.8, 1.2, 1.7, 1.4) for each in (1.0, pair, 1.0)]
    result = play(Scripted(rounds=4), *sides, watch, pace=FixedPace(*slow))
    assert (result.slowness, result.left_out) == ([1.3, 1.2, 1.7, 1.4], 2)


@pytest.mark.parametrize(("loops_s", "kept"), [([3, 1, 2], [1, 2]), ([1, 1, 1], [1, 1]), ([5], [5])])
def test_the_calmest_pairs_stay_in_the_order_they_were_played(loops_s: Sequence[float], kept: Sequence[float]) -> None:
    assert [pair.loop_s for pair in calmest([Pair({}, {}, each) for each in loops_s], 2)] == kept


def test_the_loop_is_timed_on_each_core_and_the_thread_may_use_all_of_them_again() -> None:
    before = os.sched_getaffinity(0)
    assert 0 < loop_s() < LOOPS
    assert os.sched_getaffinity(0) == before


def test_a_machine_is_slow_beside_its_own_best() -> None:
    pace = Pace()
    pace.best_s = 0.010
    assert [pace.is_calm(taken_s) for taken_s in (0.0114, 0.0116)] == [True, False]
    assert pace.slowness(0.016) == pytest.approx(1.6)
