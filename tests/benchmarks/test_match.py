"""How rows are played: the sides in turn, as many rounds as there is time for, and failures kept with their reason."""

import io
import time
from typing import Any, cast

import pytest
from rich.console import Console

from benchmarks.figures import Figure
from benchmarks.match import play
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


class Scripted(Row):
    """Notes what is done, and fails on side B in the round that it is told."""

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
    result = play(row, *sides, watch)
    assert row.done == ["open A", "A", "open B", "B", *"ABABAB", "close A", "close B"]
    assert (len(result.a), len(result.b), result.failure) == (3, 3, None)


def test_the_first_round_is_played_however_late_it_is_and_no_other(sides: tuple[Side, Side], watch: Watch) -> None:
    result = play(Scripted(), *sides, watch, time.monotonic() - 1)
    assert (len(result.a), len(result.b)) == (1, 1)
    assert result.comparison("throughput") is not None


def test_a_row_that_fails_says_where_and_is_closed_on_both_sides(sides: tuple[Side, Side], watch: Watch) -> None:
    row = Scripted(fails_in=2)
    result = play(row, *sides, watch)
    assert result.failure == "on B (nothing): RoundError: records are missing"
    assert result.comparisons() == []
    assert row.done[-2:] == ["close A", "close B"]
