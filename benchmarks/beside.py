"""Further sides that play beside A and B, in the same rounds: the bare ceiling, other brokers.

They are measured and shown; nothing is required of them. One that cannot play a row, or fails in it, is left out of
that row with its reason, and A and B go on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from benchmarks.ceiling.side import Ceiling
from benchmarks.ceiling.side import program as ceiling_program
from benchmarks.kfake.side import KfakeSide
from benchmarks.kfake.side import program as kfake_program
from benchmarks.raw.compiled import CompileError
from benchmarks.rows import Row
from benchmarks.sides import Side, failure_text
from oracle import BrokerProcessError

SIDES: Final[Mapping[str, Callable[[str, Path], Side]]] = {"ceiling": Ceiling, "kfake": KfakeSide}
BUILT: Final[Mapping[str, Callable[[], Path]]] = {"ceiling": ceiling_program, "kfake": kfake_program}
LETTERS: Final = "CDEF"
REHEARSED_S: Final = 0.3
"""So long is the load of a round that is only rehearsed."""


def possible(names: Sequence[str], say: Callable[[str], object]) -> list[str]:
    """Return the sides that the machine can build, and say of each other one why not."""
    built = []
    for name in dict.fromkeys(names):
        try:
            BUILT[name]()
        except CompileError as problem:
            say(f"{name} does not play: {problem}")
        else:
            built.append(name)
    return built


@contextmanager
def running(names: Sequence[str], directory: Path, say: Callable[[str], object]) -> Iterator[list[Side]]:
    """These sides, started, each in a directory of its own below this one; of one that does not start it is said."""
    with ExitStack() as stack:
        started = []
        for letter, name in zip(LETTERS, names, strict=False):
            try:
                started.append(stack.enter_context(SIDES[name](letter, directory / letter.lower())))
            except (BrokerProcessError, KafkaException, OSError) as problem:
                say(f"{name} does not play: {problem}")
        yield started


class Beside:
    """The further sides in one row. ``apart`` says why a program does not play, or plays no more."""

    def __init__(self, row: Row, sides: Sequence[Side]) -> None:
        self.row, self.sides = row, sides
        self.apart: dict[str, str] = {}
        self._opened: list[Side] = []

    @property
    def playing(self) -> list[Side]:
        return [side for side in self._opened if side.program not in self.apart]

    @property
    def words(self) -> str:
        return ", ".join(f"{side.letter} ({side.program})" for side in self.playing)

    def open(self, side: Side) -> None:
        """Prepares a side, if it can play, and does its uncounted rounds."""
        reason = side.refuses(self.row.key)
        if reason is not None:
            self.apart[side.program] = reason
            return
        self._opened.append(side)
        self._try(side, self._prepare)

    def _prepare(self, side: Side) -> None:
        row = self.row
        side.revive()
        row.open(side)
        effort = row.effort
        row.effort = effort._replace(load_s=min(effort.load_s, REHEARSED_S))
        try:
            side.rehearse(lambda: row.play(side))
        finally:
            row.effort = effort
        for _ in range(effort.uncounted_rounds if row.warms_up else 0):
            row.play(side)

    def play(self) -> dict[str, dict[str, float]]:
        """The figures of a round of each that still plays, by program."""
        values: dict[str, dict[str, float]] = {}

        def one(side: Side) -> None:
            values[side.program] = self.row.play(side)

        for side in self.playing:
            self._try(side, one)
        return values

    def close(self) -> None:
        """The row is over for all that began it."""
        for side in self._opened:
            self._try(side, lambda each: each.end_row())
            self._try(side, self.row.close)
        self._opened = []

    def _try(self, side: Side, step: Callable[[Side], object]) -> None:
        """Whatever it raises leaves the side out of this row."""
        try:
            step(side)
        except Exception as failure:
            self.apart.setdefault(side.program, failure_text(side, failure) + side.last_words)
