"""Plays rows on two sides: warms both, alternates the rounds, keeps what was measured.

A B A B ...: the sides take turns, so that a slow minute of the machine meets both. A pair of rounds counts if the
machine was calm before, between and after them, as far as that can be had. A row that fails on a side is kept with its
reason and the next one goes on.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.beside import Beside
from benchmarks.figures import Comparison, Figure, compare
from benchmarks.pace import Pace
from benchmarks.progress import Watch
from benchmarks.rows import Effort, RoundError, Row, RowsOf
from benchmarks.rows.row import Point
from benchmarks.sides import Side, failure_text

SMALL_EFFORT = Effort(rounds=1, uncounted_rounds=0, warm_s=0, load_s=1, produced_mb=100, partitions=6)
COLD_JVM = "apache-kafka"
IMPORTS_S = 20.0
"""The time after which a program without a compiler at run time counts as warm: when every module is loaded."""


@dataclass
class Result:
    """One row as it was played: the rounds of each side, in order, or why it failed."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    points: tuple[Point, ...] = ()
    a: list[dict[str, float]] = field(default_factory=list)
    b: list[dict[str, float]] = field(default_factory=list)
    histogram_a: list[list[float]] = field(default_factory=list)
    histogram_b: list[list[float]] = field(default_factory=list)
    failure: str | None = None
    slowness: list[float] = field(default_factory=list)
    """The slowness of the machine around each pair of rounds, 1 at its best."""
    left_out: int = 0
    """Pairs of rounds that were played and do not count, since the machine was slow."""
    beside: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """The rounds of each further side, by its program: as many as of A and B, and in the same turns."""
    apart: dict[str, str] = field(default_factory=dict)
    """Why a further side did not play, by its program."""

    def comparisons(self) -> list[Comparison]:
        """One per figure; none when the row failed."""
        return [] if self.failure else compare(self.title, self.figures, self.a, self.b)

    def comparison(self, figure: str) -> Comparison | None:
        """The comparison of the figure with this name, if the row did not fail."""
        return next((each for each in self.comparisons() if each.figure.name == figure), None)

    def comparisons_with(self, program: str) -> list[Comparison]:
        """B beside a further side, which is A here; none where that did not play."""
        if self.failure or program not in self.beside:
            return []
        return compare(self.title, self.figures, self.beside[program], self.b)


class Pair(NamedTuple):
    """A round of each side, and how slow the machine was around them at most: seconds of a fixed loop.

    ``beside`` holds the rounds of further sides, by program.
    """

    a: dict[str, float]
    b: dict[str, float]
    loop_s: float
    beside: Mapping[str, dict[str, float]] = {}


MOST_PAIRS = 1.5
"""The factor by which more rounds may be played than are asked for."""


def calmest(pairs: Sequence[Pair], rounds: int) -> list[Pair]:
    """The pairs of the calmest machine, in the order they were played."""
    limit_s = sorted(pair.loop_s for pair in pairs)[:rounds][-1]
    return [pair for pair in pairs if pair.loop_s <= limit_s][:rounds]


def warm(side: Side, rows_of: RowsOf, keys: Sequence[str], seconds: float, say: Callable[[str], None]) -> None:
    """Plays small rounds of the selected rows: a JVM for ``seconds``, anything else once through, or 20 s.

    What fails here fails again where it is reported.
    """
    began, passes = time.monotonic(), 0
    seconds = seconds if side.program == COLD_JVM else min(seconds, IMPORTS_S)
    rows = [row for row in rows_of(SMALL_EFFORT) if row.key in keys and row.warms_up]
    while rows and (not passes or side.program == COLD_JVM):
        passes += 1
        for row in rows:
            if time.monotonic() - began >= seconds:
                return
            say(f"warming {side.letter} ({side.program}), {time.monotonic() - began:.0f} s: {row.title}")
            try:
                row.open(side)
                row.play(side)
                row.close(side)
            except Exception as failure:
                say(f"{row.title}: {failure_text(side, failure)}")
                if side.ended is not None:
                    return


def play(
    row: Row,
    a: Side,
    b: Side,
    watch: Watch,
    until_s: float = math.inf,
    pace: Pace | None = None,
    further: Sequence[Side] = (),
) -> Result:
    """The rounds of one row, the sides taking turns, after the uncounted ones of each side.

    The ``further`` sides play behind A and B in each round, if they can.

    No round begins but the first that would end after ``until_s`` on the monotonic clock, if it took as long as those
    before. Where the machine was slow, up to half as many again are played, and the calmest are kept.
    """
    result = Result(row.key, row.title, row.figures, row.points)
    for side in (a, b):
        if side.ended is not None:
            result.failure = failure_text(side, RoundError("not played"))
            return result
    pace = pace or Pace()
    opened: list[Side] = []
    beside = Beside(row, further)
    side = a
    try:
        for side in (a, b):
            watch.say(f"{row.title}: preparing {side.letter}")
            opened.append(side)
            row.open(side)
            for _ in range(row.effort.uncounted_rounds if row.warms_up else 0):
                row.play(side)
        for side in further:
            watch.say(f"{row.title}: preparing {side.letter}")
            beside.open(side)
        began_s = time.monotonic()
        pairs: list[Pair] = []
        while not _is_enough(pairs, row.effort.rounds, pace):
            now_s = time.monotonic()
            if pairs and now_s + (now_s - began_s) / len(pairs) > until_s:
                break
            values: list[dict[str, float]] = []
            loops_s = [pace.wait()]
            for side in (a, b):
                watch.say(f"{row.title}: round {len(pairs) + 1}, {side.letter} ({side.program})")
                values.append(row.play(side))
                loops_s.append(pace.look())
                if len(pairs) < row.effort.rounds:
                    watch.advance()
            watch.say(f"{row.title}: round {len(pairs) + 1}, {beside.words}")
            others = beside.play()
            if others:
                loops_s.append(pace.look())
            pairs.append(Pair(values[0], values[1], max(loops_s), others))
        _keep(result, pairs, row.effort.rounds, pace)
        result.histogram_a, result.histogram_b = row.histogram_us(a), row.histogram_us(b)
    except Exception as failure:
        # Whatever it is: the rows behind it go on.
        result.failure = failure_text(side, failure)
    beside.close()
    result.apart = {program: why for program, why in beside.apart.items() if program not in result.beside}
    for side in opened:
        try:
            row.close(side)
        except Exception as failure:
            result.failure = result.failure or failure_text(side, failure)
    return result


def _is_enough(pairs: Sequence[Pair], rounds: int, pace: Pace) -> bool:
    calm = sum(pace.is_calm(pair.loop_s) for pair in pairs)
    return calm >= rounds or len(pairs) >= int(MOST_PAIRS * rounds)


def _keep(result: Result, pairs: Sequence[Pair], rounds: int, pace: Pace) -> None:
    kept = calmest(pairs, rounds)
    result.a, result.b = [pair.a for pair in kept], [pair.b for pair in kept]
    result.slowness = [round(pace.slowness(pair.loop_s), 2) for pair in kept]
    result.left_out = len(pairs) - len(kept)
    programs = set.intersection(*(set(pair.beside) for pair in pairs))
    result.beside = {program: [pair.beside[program] for pair in kept] for program in sorted(programs)}
