"""The lag of groups over time: each look at the page of a group adds a value, so no group costs anything unseen."""

from collections import deque
from typing import Final, NamedTuple

from kpybroker.console.plots import Line, Plot
from kpybroker.io.scheduler import Scheduler

MOST_GROUPS: Final = 50
SAMPLES: Final = 200
LEAST_MS: Final = 1_500
"""Looks that follow each other sooner add no value."""


class Sample(NamedTuple):
    """A lag at one time."""

    at_ms: float
    records: int
    seconds: float | None


class LagHistory:
    """The recent lags of the groups that were looked at last."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._samples: dict[str, deque[Sample]] = {}

    def look(self, group: str, records: int, seconds: float | None) -> tuple[Plot, ...]:
        """Note the lag of a group. Return its plots."""
        samples = self._samples.pop(group, None)
        if samples is None:
            samples = deque(maxlen=SAMPLES)
            if len(self._samples) >= MOST_GROUPS:
                del self._samples[next(iter(self._samples))]
        self._samples[group] = samples
        now_ms = self._scheduler.monotonic_ms()
        if not samples or now_ms - samples[-1].at_ms >= LEAST_MS:
            samples.append(Sample(now_ms, records, seconds))
        passed_s = (samples[-1].at_ms - samples[0].at_ms) / 1000
        every_s = passed_s / (len(samples) - 1) if len(samples) > 1 else 0.0
        records_line = Line("records", tuple(float(each.records) for each in samples))
        seconds_line = Line("seconds", tuple(each.seconds for each in samples))
        return (
            Plot("Lag in records", "records", every_s, (records_line,)),
            Plot("Lag in time", "s", every_s, (seconds_line,)),
        )
