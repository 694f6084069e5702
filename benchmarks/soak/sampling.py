"""Reads a broker's memory and descriptors from ``/proc``, its collector and loop from its own metrics."""

import os
import re
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Final

from benchmarks import processes
from benchmarks.sides import Kpybroker
from benchmarks.soak.trend import Sample

SCRAPE_TIMEOUT_S: Final = 60
SCRAPES: Final = 3
"""Before a broker counts as gone: one that a busy machine starves ends an answer half-way."""
WORST: Final = 'quantile="0.999"'
METRIC: Final = re.compile(r"^(kpybroker_\w+)(?:\{([^}]*)\})? ([-+.\deE]+)$", re.MULTILINE)
GC_TOTAL: Final = "kpybroker_gc_pause_seconds_total"
GC_PAUSE: Final = "kpybroker_gc_pause_seconds"
LATE_TOTAL: Final = "kpybroker_loop_late_seconds_total"
LOOP_LAG: Final = "kpybroker_loop_lag_seconds"


class Sampler:
    """Takes samples of one broker; times count from its making."""

    def __init__(self, broker: Kpybroker) -> None:
        self.broker = broker
        self._began_s = self._at_s = time.monotonic()
        self._totals: Mapping[str, float] = self._scrape()

    def sample(self) -> Sample:
        """Raises OSError or HTTPException when the broker does not answer, asked again and again."""
        now_s = time.monotonic()
        seen = self._scrape()
        passed_s = max(now_s - self._at_s, 1e-9)
        pid = self.broker.pid
        taken = Sample(
            now_s - self._began_s,
            processes.rss_bytes(pid) / 1e6,
            len(os.listdir(f"/proc/{pid}/fd")),
            len(os.listdir(f"/proc/{pid}/task")),
            (seen[GC_TOTAL] - self._totals[GC_TOTAL]) / passed_s * 1000,
            seen[GC_PAUSE] * 1000,
            (seen[LATE_TOTAL] - self._totals[LATE_TOTAL]) / passed_s * 1000,
            seen[LOOP_LAG] * 1000,
        )
        self._at_s, self._totals = now_s, seen
        return taken

    def _scrape(self) -> dict[str, float]:
        url = f"http://127.0.0.1:{self.broker.http_port}/metrics"
        for left in reversed(range(SCRAPES)):
            try:
                with urllib.request.urlopen(url, timeout=SCRAPE_TIMEOUT_S) as answer:
                    return parse(answer.read().decode())
            except (OSError, HTTPException):
                if not left:
                    raise
        raise AssertionError("unreachable: the last scrape returns or raises")


def parse(text: str) -> dict[str, float]:
    """The values of a scrape that a sample needs; of quantiles the largest. Raises ValueError if one is missing."""
    found = {}
    for name, labels, value in METRIC.findall(text):
        if name in (GC_TOTAL, LATE_TOTAL) or (name in (GC_PAUSE, LOOP_LAG) and WORST in labels):
            found[name] = float(value)
    missing = {GC_TOTAL, GC_PAUSE, LATE_TOTAL, LOOP_LAG} - set(found)
    if missing:
        raise ValueError(f"the metrics lack {', '.join(sorted(missing))}")
    return found
