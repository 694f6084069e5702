"""The map step over processes of this machine: tasks in, outcomes out. The largest tasks begin first."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Final

from kpybroker.audit.sources import Outcome, Source, Task

PARALLEL_BYTES: Final = 256 << 20
"""The bytes below which reading is faster than starting processes."""
Reached = Callable[[int], object]
"""Takes the number of bytes that were read so far."""
Mapped = Callable[[Source, Sequence[Task], Reached], Iterator[Outcome]]
"""A map step: it does all tasks, in any order."""


def in_processes(processes: int = 0) -> Mapped:
    """The map step in this many processes; 0 for one a processor, where there is enough to read."""

    def run(source: Source, tasks: Sequence[Task], reached: Reached) -> Iterator[Outcome]:
        done = 0
        is_small = sum(task.size_bytes for task in tasks) < PARALLEL_BYTES
        workers = min(processes or (1 if is_small else os.cpu_count() or 1), len(tasks), source.processes or len(tasks))
        if workers < 2:
            for task in tasks:
                yield source.read(task)
                done += task.size_bytes
                reached(done)
            return
        largest_first = sorted(tasks, key=lambda task: -task.size_bytes)
        with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
            running = {pool.submit(source.read, task): task for task in largest_first}
            for finished in as_completed(running):
                yield finished.result()
                done += running[finished].size_bytes
                reached(done)

    return run
