"""The pace of moving partitions: each look at the page of the cluster adds a value, so a move costs nothing unseen."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from kpybroker.runtime.io.scheduler import Scheduler

RECENT_MS: Final = 60_000
"""The recent time over which the pace is measured."""
SAMPLES: Final = 60
LEAST_MS: Final = 1_000
"""The least time over which a pace means something."""

Spot = tuple[str, int]


class MoveRates:
    """The bytes that moving partitions lacked, at the last looks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._samples: dict[Spot, deque[tuple[float, int]]] = {}

    def left_s(self, left: Mapping[Spot, int]) -> dict[Spot, float]:
        """Note the bytes that are left of all moves that are shown. Return how long each takes at its present pace,
        where it gets on."""
        now_ms = self._scheduler.monotonic_ms()
        found = {}
        samples: dict[Spot, deque[tuple[float, int]]] = {}
        for spot, bytes_left in left.items():
            known = samples[spot] = self._samples.get(spot) or deque(maxlen=SAMPLES)
            known.append((now_ms, bytes_left))
            while known[0][0] < now_ms - RECENT_MS:
                known.popleft()
            first_ms, first_left = known[0]
            if now_ms - first_ms >= LEAST_MS and first_left > bytes_left:
                found[spot] = bytes_left * (now_ms - first_ms) / (first_left - bytes_left) / 1000
        self._samples = samples
        return found
