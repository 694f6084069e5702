"""The CPU time of each page of the console on a node with 5 000 partitions and 500 groups, and its longest step.

``PYTHONPATH=compat-tests .venv/bin/python tests/console/page_times.py`` prints a table. With the Python of another
environment it measures the wheel that is installed there. Nothing is kept from one answer to the next.
"""

import asyncio
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from crowded_node import GROUPS, PARTITIONS, crowd
from stage import Stage

from kpybroker.machines.metadata import delta
from kpybroker.monitoring.console import overviews
from kpybroker.monitoring.console.pages import PAGES
from kpybroker.monitoring.console.rendering import MENU
from kpybroker.runtime.io.collector import GarbageCollector
from support.waiting import eventually

ANSWERS: Final = 15
FURTHER: Final = ("/topics/crowd", "/topics?sort=-lag", "/groups?sort=-time", "/group?id=group-7", "/find?q=o")
"""Addresses that are not in the menu."""
NS_PER_MS: Final = 1e6
CALM_ANSWERS: Final = 200
CALM_NS: Final = 2_000_000


class PageTime(NamedTuple):
    """The CPU time of a page's answers, and that of the longest step of the event loop while they were made, in ms."""

    address: str
    middle_ms: float
    most_ms: float
    step_ms: float


class StepClock:
    """Keeps the CPU time of the longest step of a loop: the loop's own, without the time for which it waits."""

    def __init__(self) -> None:
        self.longest_ns = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within this, every step is measured."""
        run = asyncio.Handle._run

        def timed(handle: Any) -> None:
            began_ns = time.thread_time_ns()
            run(handle)
            self.longest_ns = max(self.longest_ns, time.thread_time_ns() - began_ns)

        asyncio.Handle._run = timed  # type: ignore[method-assign]
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]


def addresses(stage: Stage) -> list[str]:
    """The pages of the menu that the node has, and some more."""
    pages = {page.path: page for page in PAGES}
    return [*(stage.address(pages[path], path) for path, _ in MENU if path in pages), *FURTHER]


def calm(stage: Stage, clock: StepClock) -> bool:
    """Whether the node has no long steps of its own while it answers a page that has none."""
    clock.longest_ns = 0
    for _ in range(CALM_ANSWERS):
        stage.node.get("/quotas")
    return clock.longest_ns < CALM_NS


def measured(address: str, ask: Callable[[str], Any], clock: StepClock) -> PageTime:
    """Ask for a page often. The CPU time is that of all threads but this one, which asks."""
    assert ask(address).status == 200, address
    took_ms, steps_ms = [], []
    for _ in range(ANSWERS):
        clock.longest_ns = 0
        began_s = time.process_time() - time.thread_time()
        ask(address)
        took_ms.append((time.process_time() - time.thread_time() - began_s) * 1000)
        steps_ms.append(clock.longest_ns / NS_PER_MS)
    return PageTime(address, median(took_ms), max(took_ms), median(steps_ms))


def main() -> None:
    """Measure and print."""
    clock = StepClock()
    is_compiled = not str(delta.__file__).endswith(".py")
    with clock.running(), patch.object(overviews, "FRESH", 0), crowd() as stage:
        stage.node.call(GarbageCollector(stage.node.node.scheduler).start)  # as `kpybroker start` does
        eventually(lambda: calm(stage, clock), "the node has done what comes after the creation of topics", 120)
        form = "compiled" if is_compiled else "pure Python"
        print(f"{PARTITIONS} partitions, {GROUPS} groups, {ANSWERS} answers, {form} {platform.python_version()}")
        print("| page | CPU time, ms | most, ms | longest step, ms |\n|---|---:|---:|---:|")
        for address in addresses(stage):
            found = measured(address, stage.node.get, clock)
            print(f"| `{found.address}` | {found.middle_ms:.0f} | {found.most_ms:.0f} | {found.step_ms:.1f} |")


if __name__ == "__main__":
    main()
