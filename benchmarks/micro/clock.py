"""Microseconds of CPU per call: the best of several repetitions, for what disturbs a repetition only ever adds."""

import gc
import time
from collections.abc import Callable
from typing import Final, NamedTuple

REPETITIONS: Final = 7
REPETITION_S: Final = 0.05


class Timing(NamedTuple):
    """One operation; ``per`` is how many things of ``unit`` a call works on, if it is worth saying."""

    name: str
    us: float
    per: int = 1
    unit: str = ""


def timed(name: str, operation: Callable[[], object], *, per: int = 1, unit: str = "") -> Timing:
    """Calls the operation often enough for 50 ms, seven times over, without garbage collection; the best mean."""
    operation()
    calls = calls_for(operation, REPETITION_S)
    collecting = gc.isenabled()
    gc.disable()
    try:
        best = min(spent(operation, calls) for _ in range(REPETITIONS)) / calls
    finally:
        if collecting:
            gc.enable()
    return Timing(name, best * 1e6, per, unit)


def calls_for(operation: Callable[[], object], seconds: float) -> int:
    """How many calls take about that long."""
    calls = 1
    while (took := spent(operation, calls)) < seconds / 10:
        calls *= 4
    return max(1, round(calls * seconds / took))


def spent(operation: Callable[[], object], calls: int) -> float:
    """CPU seconds of this thread for so many calls."""
    began = time.thread_time()
    for _ in range(calls):
        operation()
    return time.thread_time() - began
