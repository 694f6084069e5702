"""Further sides: they play in the same rounds, their failures end nothing, and the table shows them beside B."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from benchmarks import beside, kept, report
from benchmarks.command import Run, played
from benchmarks.figures import Figure
from benchmarks.kept import Circumstances, Kept
from benchmarks.match import Result, play
from benchmarks.pace import Pace
from benchmarks.progress import Watch
from benchmarks.raw import compiled
from benchmarks.rows import RoundError, Row
from benchmarks.rows.row import QUICK
from benchmarks.sides import Side

RATE = Figure("throughput", "requests/s", True)
CPU = Figure("broker CPU", "µs/request", False)
AROUND = Circumstances(("apache-kafka", "kpybroker"), ("Apache Kafka 4.3.1", "kpybroker 0.2.0"), 2, "2 cores.", "now")


class Guest:
    """Stands for a side that notes what it is asked to do."""

    ended = None
    last_words = ""

    def __init__(self, letter: str, program: str, refusal: str | None = None) -> None:
        self.letter, self.program, self.refusal = letter, program, refusal
        self.efforts: list[float] = []

    def refuses(self, row: str) -> str | None:
        assert row == "scripted"
        return self.refusal

    def revive(self) -> None:
        """It lives."""

    def rehearse(self, play: Callable[[], object]) -> None:
        play()

    def end_row(self) -> None:
        """Nothing was put in anybody's place."""


class Calm(Pace):
    def look(self) -> float:
        self.best_s = 1.0
        return 1.0


class Scripted(Row):
    key = title = "scripted"
    figures = (RATE,)

    def __init__(self, fails_on: str = "") -> None:
        super().__init__(QUICK._replace(rounds=2, uncounted_rounds=0))
        self.fails_on = fails_on
        self.done: list[str] = []
        self.load_s: list[float] = []

    def play(self, side: Side) -> dict[str, float]:
        self.done.append(side.letter)
        self.load_s.append(self.effort.load_s)
        if side.letter == self.fails_on and self.done.count(side.letter) > 2:
            raise RoundError("records are missing")
        return {RATE.name: float(len(self.done))}

    def close(self, side: Side) -> None:
        self.done.append(side.letter.lower())


def played_with(row: Row, *guests: Guest) -> Result:
    sides = cast(Any, [Guest("A", "apache-kafka"), Guest("B", "kpybroker"), *guests])
    return play(row, sides[0], sides[1], Watch(Console(file=io.StringIO()), 4), pace=Calm(), further=sides[2:])


def test_a_further_side_plays_behind_a_and_b_after_a_short_rehearsal() -> None:
    row = Scripted()
    result = played_with(row, Guest("C", "ceiling"))
    assert "".join(row.done) == "C" + "ABC" * 2 + "cab"
    assert row.load_s == [beside.REHEARSED_S, *[QUICK.load_s] * 6]
    assert result.beside == {"ceiling": [{"throughput": 4.0}, {"throughput": 7.0}]}
    assert (len(result.a), len(result.b), result.apart, result.failure) == (2, 2, {}, None)


def test_a_further_side_that_fails_is_left_out_and_ends_nothing() -> None:
    row = Scripted(fails_on="C")
    result = played_with(row, Guest("C", "ceiling"))
    assert result.beside == {}
    assert result.apart == {"ceiling": "on C (ceiling): RoundError: records are missing"}
    assert (len(result.a), len(result.b), result.failure) == (2, 2, None)


def test_a_further_side_that_refuses_a_row_is_not_asked_to_play_it() -> None:
    row = Scripted()
    result = played_with(row, Guest("C", "ceiling", "nothing is compacted"), Guest("D", "kfake"))
    assert "C" not in row.done
    assert (list(result.beside), result.apart) == (["kfake"], {"ceiling": "nothing is compacted"})


def result(**changed: Any) -> Result:
    rounds = [{"throughput": 100.0, "broker CPU": 10.0}] * 2
    bare = [{"throughput": 200.0, "broker CPU": 8.0}, {"throughput": 400.0, "broker CPU": 4.0}]
    further = {"beside": {"ceiling": bare}, **changed}
    return Result("small", "small requests", (RATE, CPU), a=rounds, b=rounds, **further)


def test_the_table_shows_what_part_of_the_ceiling_b_reaches() -> None:
    table = report.markdown([Kept(result(), AROUND)])
    assert "## Beside ceiling" in table
    assert "| small requests | throughput, requests/s | 300.0 | 100.0 | **0.38** | 0.25-0.50 |  |" in table
    assert "| small requests | broker CPU, µs/request | 6.000 | 10.00 | **1.88** | 1.25-2.50 |  |" in table
    assert "Every row reaches" in table


def test_the_aim_of_cpu_is_one_and_a_half_times_the_ceiling() -> None:
    near = result(beside={"ceiling": [{"throughput": 200.0, "broker CPU": 7.0}] * 2})
    table = report.markdown([Kept(near, AROUND)])
    assert "| small requests | broker CPU, µs/request | 7.000 | 10.00 | **1.43** | 1.43-1.43 | aim |" in table


def test_rows_without_a_further_side_are_named_with_their_reason() -> None:
    apart = result(beside={}, apart={"kfake": "it has no cleaner"})
    assert "- without kfake: small: it has no cleaner" in report.markdown([Kept(apart, AROUND)])
    assert "Beside" not in report.markdown([Kept(result(beside={}), AROUND)])


def test_further_sides_are_kept_and_a_row_that_lacks_one_is_played_again(tmp_path: Path) -> None:
    one = Kept(result(apart={"kfake": "it has no cleaner"}), AROUND)
    run = Run([], QUICK._replace(rounds=2), AROUND.names, AROUND.versions, tmp_path, None, 1.0, "")
    kept.keep(run.kept_rows, one)
    assert kept.load(run.kept_rows, "small") == one
    assert played(run._replace(further=["ceiling", "kfake"]), "small")
    kept.keep(run.kept_rows, Kept(result(beside={}), AROUND))
    assert played(run, "small")
    assert not played(run._replace(further=["ceiling"]), "small")


def test_a_side_that_cannot_be_built_is_reported_and_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reported: list[str] = []
    monkeypatch.setattr(compiled, "BUILD", tmp_path)
    monkeypatch.setattr("benchmarks.kfake.side.BUILD", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert beside.possible(["ceiling", "kfake"], reported.append) == []
    assert reported == [
        "ceiling does not play: no C compiler (cc) on this machine: ceiling.c cannot be built",
        "kfake does not play: no Go (go) on this machine: kfake cannot be built",
    ]
