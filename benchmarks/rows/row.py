"""The shape of a row, and how much work its rounds are."""

import time
from abc import ABC, abstractmethod
from typing import NamedTuple

from benchmarks.figures import Figure
from benchmarks.sides import Side


class RoundError(RuntimeError):
    """A round did not do the work it was to measure, so its figures would be fiction."""


class Effort(NamedTuple):
    """How much a run works: rounds per row and side, before them ones not counted, a JVM's warm-up, a round's size."""

    rounds: int
    uncounted_rounds: int
    warm_s: float
    load_s: float
    produced_mb: int
    partitions: int

    def records(self, record_bytes: int) -> int:
        """How many records of this size a throughput round moves; small ones cost more each, so fewer bytes of them."""
        share = 1 if record_bytes >= 1000 else 3
        return self.produced_mb * 1_000_000 // share // record_bytes


FULL = Effort(rounds=5, uncounted_rounds=1, warm_s=180, load_s=5, produced_mb=900, partitions=6)
QUICK = Effort(rounds=3, uncounted_rounds=0, warm_s=45, load_s=1, produced_mb=200, partitions=6)


class Row(ABC):
    """One line or several of the table: ``key`` selects it on the command line, ``title`` is printed."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    warms_up = True

    def __init__(self, effort: Effort) -> None:
        self.effort = effort

    def open(self, side: Side) -> None:  # noqa: B027  most rows need nothing
        """What a side needs once before its first round, such as a topic with records."""

    @abstractmethod
    def play(self, side: Side) -> dict[str, float]:
        """One round; a value for the name of each figure. Raises RoundError and what clients raise."""

    def close(self, side: Side) -> None:  # noqa: B027  most rows need nothing
        """Undoes ``open``."""

    def histogram_us(self, side: Side) -> list[list[float]]:  # noqa: ARG002  most rows have none
        """Latency and count pairs of the last round on this side, for the plots."""
        return []


class Meter:
    """Wall and broker CPU seconds between ``begin`` and ``end``."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.begin()

    def begin(self) -> None:
        self._cpu_s, self._at_s = self.side.cpu_seconds(), time.perf_counter()

    def end(self) -> tuple[float, float]:
        """Wall seconds and CPU seconds."""
        return time.perf_counter() - self._at_s, self.side.cpu_seconds() - self._cpu_s
