"""Microseconds of CPU per call: the best of several repetitions, for what disturbs a repetition only ever adds."""

import cProfile
import gc
import pstats
import time
from collections.abc import Callable
from typing import Final, NamedTuple

REPETITIONS: Final = 7
REPETITION_S: Final = 0.05


class Operation(NamedTuple):
    """Something to call again and again; ``per`` is how many things of ``unit`` one call works on."""

    name: str
    call: Callable[[], object]
    per: int = 1
    unit: str = ""
    clock: Callable[[], float] = time.thread_time
    """Seconds of CPU: of this thread, or of the process where libraries work in threads of their own."""


def best_us(operation: Operation) -> float:
    """Calls it often enough for 50 ms, seven times over, without garbage collection; the best mean."""
    call = operation.call
    call()
    calls = calls_for(call, REPETITION_S, operation.clock)
    collecting = gc.isenabled()
    gc.disable()
    try:
        return min(spent(call, calls, operation.clock) for _ in range(REPETITIONS)) / calls * 1e6
    finally:
        if collecting:
            gc.enable()


def profile(operation: Operation, top: int = 25) -> None:
    """Prints the functions one call goes through, with their number of calls, dearest first."""
    operation.call()
    calls = calls_for(operation.call, REPETITION_S)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(calls):
        operation.call()
    profiler.disable()
    print(f"{operation.name}: {calls} calls")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(top)


def calls_for(call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.thread_time) -> int:
    """How many calls take about that long."""
    calls = 1
    while (took := spent(call, calls, clock)) < seconds / 10:
        calls *= 4
    return max(1, round(calls * seconds / took))


def spent(call: Callable[[], object], calls: int, clock: Callable[[], float] = time.thread_time) -> float:
    """CPU seconds for a number of calls."""
    began = clock()
    for _ in range(calls):
        call()
    return clock() - began
