"""The shape of a row, and how much work its rounds are."""

import time
from abc import ABC, abstractmethod
from typing import Final, NamedTuple

from benchmarks.figures import Figure
from benchmarks.sides import Side

BY_SIZE: Final = "bytes per record"
BY_PARTITIONS: Final = "partitions"
BY_CONNECTIONS: Final = "connections"
BY_MEMBERS: Final = "members"


class RoundError(RuntimeError):
    """A round did not do the work it was to measure, so its figures would be fiction."""


USUAL_S: Final = 20.0
"""About what five rounds of a row on both sides take in `BRIEF`, with all that belongs to them."""


class Effort(NamedTuple):
    """How much a run works: rounds per row and side, before them ones not counted, a JVM's warm-up, a round's size."""

    rounds: int
    uncounted_rounds: int
    warm_s: float
    load_s: float
    produced_mb: int
    partitions: int
    restart_gb: float = 0.1
    """The data in the topic of the row that restarts after SIGKILL."""
    compacted_gb: float = 0.4
    """The data that is compacted beside a tail."""
    transactional_ids: int = 5_000
    """The ids that a coordinator knows when it is started."""

    @property
    def words(self) -> str:
        """How long a round is."""
        return f"rounds of {self.load_s:g} s, or of {self.produced_mb} MB"

    def records(self, record_bytes: int) -> int:
        """How many records of this size a throughput round moves; small ones cost more each, so fewer bytes of them."""
        share = 1 if record_bytes >= 1000 else 3
        return self.produced_mb * 1_000_000 // share // record_bytes


FULL = Effort(
    rounds=5,
    uncounted_rounds=1,
    warm_s=180,
    load_s=5,
    produced_mb=900,
    partitions=6,
    restart_gb=10,
    compacted_gb=1.5,
    transactional_ids=100_000,
)
BRIEF = FULL._replace(warm_s=75, load_s=1.5, produced_mb=300)
"""The same rows and rounds, most of them shorter: for a run that has to be over in about an hour."""
QUICK = Effort(rounds=3, uncounted_rounds=0, warm_s=40, load_s=1, produced_mb=150, partitions=6)


class Point(NamedTuple):
    """The place of a row's figure in a plot: on which curve, and at which ``x`` of an axis that others share."""

    axis: str
    curve: str
    x: float
    figure: str


class Row(ABC):
    """One line or several of the table: ``key`` selects it on the command line, ``title`` is printed."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    points: tuple[Point, ...] = ()
    warms_up = True
    expected_s = USUAL_S
    """Its share of a run that has to be over in time."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort

    def open(self, side: Side) -> None:  # noqa: B027  most rows need nothing
        """Prepare what a side needs once before its first round, such as a topic with records."""

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
