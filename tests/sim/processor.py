"""The processor of a simulation, and the clocks of the system in its place: nothing in the process sees the real ones.

Code that measures how long something took learns that measuring costs a little, so long work is cut into pieces at
other places with every seed. Has to be installed before anything of kpybroker is imported, which binds the
clocks by name.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

REAL_NS = time.perf_counter_ns
WORKED_NS = time.process_time_ns
RANDOMNESS = random.SystemRandom, os.urandom
START_NS = 1_790_000_000_000_000_000


class Processor:
    """The work of a processor, and the time for the node that runs on it now."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.worked_ns = 0
        self.step_ns = 1_000
        """The time between two looks at the clock."""

    def reset(self, step_ns: int) -> None:
        """A new simulation begins."""
        self.now_ns = self.worked_ns = 0
        self.step_ns = step_ns

    def set_time(self, now_ns: int) -> None:
        """An event is due: the clock never goes back."""
        if now_ns > self.now_ns:
            self.now_ns = now_ns

    def perf_counter_ns(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns

    def thread_time_ns(self) -> int:
        self.worked_ns += self.step_ns
        return self.worked_ns


PROCESSOR = Processor()


@contextmanager
def with_randomness() -> Iterator[None]:
    """Inside the block, libraries are imported that draw random numbers at their import."""
    taken = random.SystemRandom, os.urandom
    random.SystemRandom, os.urandom = RANDOMNESS
    try:
        yield
    finally:
        random.SystemRandom, os.urandom = taken


def install() -> None:
    """Take the clocks and the randomness of the system away."""
    time.perf_counter_ns = PROCESSOR.perf_counter_ns
    time.thread_time_ns = PROCESSOR.thread_time_ns
    time.time_ns = lambda: START_NS + PROCESSOR.now_ns
    time.time = lambda: (START_NS + PROCESSOR.now_ns) / 1e9
    time.monotonic = lambda: PROCESSOR.now_ns / 1e9
    time.perf_counter = lambda: PROCESSOR.now_ns / 1e9
    random.SystemRandom = _Refused
    os.urandom = _refuse


class _Refused:
    def __init__(self) -> None:
        _refuse()


def _refuse(*_arguments: Any) -> NoReturn:
    raise AssertionError("a simulation has no randomness but its own")
