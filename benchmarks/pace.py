"""How fast the machine runs just now, beside its best.

The cores of a virtual machine are often hyperthreads whose other half is somebody else's. While that one works, the
same loop takes 1.6 times as long, for seconds at a time, and only one side of a round may meet that. So rounds begin
when the machine is calm, and those in which it was not are played again.
"""

import math
import os
import statistics
import time
from typing import Final

CALM: Final = 1.15
"""The factor of its best time that a loop may take on a calm machine."""
MOST_CORES: Final = 8
LOOPS: Final = 5
STEPS: Final = 50_000
WAIT_S: Final = 2.0
LOOK_AGAIN_S: Final = 0.1


def loop_s() -> float:
    """CPU seconds of a fixed piece of work, on the slowest core; each takes some milliseconds."""
    allowed = os.sched_getaffinity(0)
    try:
        return max(_on_core(core) for core in sorted(allowed)[:MOST_CORES])
    finally:
        os.sched_setaffinity(0, allowed)


def _on_core(core: int) -> float:
    os.sched_setaffinity(0, {core})
    return statistics.median(_one_loop() for _ in range(LOOPS))


def _one_loop() -> float:
    began_s = time.thread_time()
    kept: dict[int, int] = {}
    for step in range(STEPS):
        kept[step & 1023] = step
    return time.thread_time() - began_s


class Pace:
    """Remembers the machine's best."""

    def __init__(self) -> None:
        self.best_s = math.inf

    def look(self) -> float:
        """Seconds of a loop now, to be given to ``slowness``."""
        taken_s = loop_s()
        self.best_s = min(self.best_s, taken_s)
        return taken_s

    def slowness(self, taken_s: float) -> float:
        """How many times as long that was as the best seen so far."""
        return taken_s / self.best_s

    def is_calm(self, taken_s: float) -> bool:
        return self.slowness(taken_s) <= CALM

    def wait(self, most_s: float = WAIT_S) -> float:
        """The result of ``look`` as soon as the machine is calm, or after this time."""
        until_s = time.monotonic() + most_s
        while not self.is_calm(taken_s := self.look()) and time.monotonic() < until_s:
            time.sleep(LOOK_AGAIN_S)
        return taken_s
