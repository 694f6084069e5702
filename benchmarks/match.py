"""Plays rows on two sides: warms both, alternates the rounds, keeps what was measured.

A B A B ...: the sides take turns, so that a slow minute of the machine meets both. A row that fails on a side is kept
with its reason and the next one goes on.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.figures import Comparison, Figure, compare
from benchmarks.progress import Watch
from benchmarks.rows import Effort, RoundError, Row, RowsOf
from benchmarks.rows.row import Point
from benchmarks.sides import Side

SMALL_EFFORT = Effort(rounds=1, uncounted_rounds=0, warm_s=0, load_s=1, produced_mb=100, partitions=6)
COLD_JVM = "apache-kafka"
IMPORTS_S = 20.0
"""What has no compiler that learns is warm when every module is loaded."""
MOST_FAILURE_TEXT = 500


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

    def comparisons(self) -> list[Comparison]:
        """One per figure; none when the row failed."""
        return [] if self.failure else compare(self.title, self.figures, self.a, self.b)

    def comparison(self, figure: str) -> Comparison | None:
        """That of the figure so named, if the row did not fail."""
        return next((each for each in self.comparisons() if each.figure.name == figure), None)


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
                say(f"{row.title}: {told(side, failure)}")
                if side.ended is not None:
                    return


def play(row: Row, a: Side, b: Side, watch: Watch, until_s: float = math.inf) -> Result:
    """The rounds of one row, the sides taking turns, after the uncounted ones of each side.

    No round begins but the first that would end after ``until_s`` on the monotonic clock, if it took as long as those
    before.
    """
    rounds = row.effort.rounds
    result = Result(row.key, row.title, row.figures, row.points)
    for side in (a, b):
        if side.ended is not None:
            result.failure = told(side, RoundError("not played"))
            return result
    opened: list[Side] = []
    side = a
    try:
        for side in (a, b):
            watch.say(f"{row.title}: preparing {side.letter}")
            opened.append(side)
            row.open(side)
            for _ in range(row.effort.uncounted_rounds if row.warms_up else 0):
                row.play(side)
        began_s = time.monotonic()
        for number in range(1, rounds + 1):
            now_s = time.monotonic()
            if number > 1 and now_s + (now_s - began_s) / (number - 1) > until_s:
                break
            for side, kept in ((a, result.a), (b, result.b)):
                watch.say(f"{row.title}: round {number} of {rounds}, {side.letter} ({side.program})")
                kept.append(row.play(side))
                watch.advance()
        result.histogram_a, result.histogram_b = row.histogram_us(a), row.histogram_us(b)
    except Exception as failure:
        # Whatever it is: the rows behind it go on.
        result.failure = told(side, failure)
    for side in opened:
        try:
            row.close(side)
        except Exception as failure:
            result.failure = result.failure or told(side, failure)
    return result


def told(side: Side, failure: Exception) -> str:
    """One line: where, what, and whether the broker is still there."""
    code = side.ended
    gone = "" if code is None else f" (the broker has ended with code {code})"
    words = " ".join(str(failure).split())
    return f"on {side.letter} ({side.program}){gone}: {type(failure).__name__}: {words[:MOST_FAILURE_TEXT]}"
