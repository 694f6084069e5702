"""Whether a figure that was sampled over time is flat. Pure.

A figure grows by the slope of the line through all pairs of samples (Theil and Sen's median of slopes), so that single
peaks do not count, times the time that was sampled. Allowed is a constant, for what a short run cannot tell from noise,
and a rate, which is what counts in an hour.
"""

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

SECONDS_PER_HOUR: Final = 3600.0
WARM_UP_SHARE: Final = 0.25
LEAST_WARM_UP_S: Final = 30.0
"""So long clients take until all of them are there; but never more than half of the time."""
MOST_POINTS: Final = 400


class Sample(NamedTuple):
    """The measurements of one moment; counters since the sample before."""

    at_s: float
    rss_mb: float
    descriptors: float
    threads: float
    gc_ms_per_s: float
    gc_worst_ms: float
    loop_late_ms_per_s: float
    loop_worst_ms: float


class Bound(NamedTuple):
    """How much a figure may grow over a run."""

    figure: str
    """A field of `Sample`."""
    title: str
    noise: float
    per_hour: float

    def allowed(self, seconds: float) -> float:
        return self.noise + self.per_hour * seconds / SECONDS_PER_HOUR


DESCRIPTORS_OF_A_TURN: Final = 40.0
"""The descriptors that topics hold for a moment as they come and go; a leak of one descriptor for each of them, or
for each connection, is hundreds within a minute."""
BOUNDS: Final = (
    Bound("rss_mb", "resident memory, MB", 6.0, 8.0),
    Bound("descriptors", "descriptors", DESCRIPTORS_OF_A_TURN, 8.0),
    Bound("threads", "threads", 2.0, 0.0),
    Bound("gc_ms_per_s", "garbage collection, ms/s", 3.0, 1.0),
    Bound("gc_worst_ms", "worst pause of the collector, ms", 40.0, 5.0),
)


class Growth(NamedTuple):
    """How much a figure grew after the warm-up, and how much it may."""

    bound: Bound
    first: float
    last: float
    grown: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.grown <= self.allowed


def after_warm_up(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the last three quarters of the time, of a short time the last half."""
    if not samples:
        return []
    begin_s, end_s = samples[0].at_s, samples[-1].at_s
    passed_s = end_s - begin_s
    warm_up_s = min(max(passed_s * WARM_UP_SHARE, LEAST_WARM_UP_S), passed_s / 2)
    return [sample for sample in samples if sample.at_s >= begin_s + warm_up_s]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of (x, y), 0 where there are none; of many points a selection."""
    chosen = points[:: max(1, len(points) // MOST_POINTS)]
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(chosen) for x2, y2 in chosen[i + 1 :] if x2 != x1]
    return median(slopes) if slopes else 0.0


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """One per bound, of what was sampled after the warm-up. Raises ValueError when that is too little."""
    steady = after_warm_up(samples)
    if len(steady) < 4:
        raise ValueError(f"{len(steady)} samples after the warm-up tell nothing")
    seconds = steady[-1].at_s - steady[0].at_s
    found = []
    for bound in BOUNDS:
        values = [float(getattr(sample, bound.figure)) for sample in steady]
        grown = slope([(sample.at_s, value) for sample, value in zip(steady, values, strict=True)]) * seconds
        found.append(Growth(bound, values[0], values[-1], grown, bound.allowed(seconds)))
    return found
