"""The map step over processes of this machine: pieces of work in, results out. The largest pieces begin first."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Final

from kpybroker.machines.audit.work import Mapped, R, Reached, T

PARALLEL_BYTES: Final = 256 << 20
"""The bytes below which reading is faster than starting processes."""


def in_processes(processes: int = 0) -> Mapped:
    """The map step in this many processes; 0 for one a processor, where there is enough to read."""

    def run(call: Callable[[T], R], work: Sequence[T], reached: Reached) -> Iterator[R]:
        done = 0
        is_small = sum(each.size_bytes for each in work) < PARALLEL_BYTES
        workers = min(processes or (1 if is_small else os.cpu_count() or 1), len(work))
        if workers < 2:
            for each in work:
                yield call(each)
                done += each.size_bytes
                reached(done)
            return
        largest_first = sorted(work, key=lambda each: -each.size_bytes)
        pool = ProcessPoolExecutor(workers, mp_context=get_context(start_method()))
        try:
            running = {pool.submit(call, each): each for each in largest_first}
            for finished in as_completed(running):
                yield finished.result()
                done += running[finished].size_bytes
                reached(done)
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C, nobody waits for the rest

    return run


def start_method() -> str:
    """The way to start processes: ``fork`` takes milliseconds and the others a fifth of a second, but another thread's
    lock would stay locked in the new process, and only Linux tells of all threads."""
    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        return "forkserver"
    return "fork" if threads == 1 else "forkserver"
