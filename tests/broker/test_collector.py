"""The garbage collector of a broker's process: what lives long is not walked, unless memory grows and grows."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kpybroker.runtime.io.collector import (
    BUSY_GROWTH,
    CHECK_MS,
    FEW_BLOCKS,
    IDLE_CHECKS,
    IDLE_GROWTH,
    YOUNG_OBJECTS,
    GarbageCollector,
)
from kpybroker.runtime.io.scheduler import ManualScheduler

NS_PER_MS = 1_000_000
BLOCKS = 2 * FEW_BLOCKS
"""The blocks of memory at the start."""
LONG_MS = CHECK_MS * (IDLE_CHECKS + 1)


class Node:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class Clocks:
    """A thread that computes for a share of the time."""

    def __init__(self, scheduler: ManualScheduler) -> None:
        self.scheduler = scheduler
        self.busy_share = 1.0
        self.blocks = BLOCKS

    def now_ns(self) -> int:
        return int(self.scheduler.monotonic_ms() * NS_PER_MS)

    def worked_ns(self) -> int:
        return int(self.now_ns() * self.busy_share)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks(ManualScheduler())


@pytest.fixture
def collector(clocks: Clocks) -> Iterator[GarbageCollector]:
    before = gc.get_threshold()
    made = GarbageCollector(clocks.scheduler, clocks.now_ns, clocks.worked_ns, lambda: clocks.blocks)
    made.start()
    yield made
    made.stop()
    gc.set_threshold(*before)
    gc.unfreeze()


def survivors(collections: int) -> list[list[int]]:
    """Objects that live through a number of young collections."""
    kept = []
    for _ in range(collections):
        kept += [[number] for number in range(YOUNG_OBJECTS + 1)]
    return kept


def test_objects_that_survive_a_young_collection_are_frozen(collector: GarbageCollector, clocks: Clocks) -> None:
    kept = survivors(2)
    before = gc.get_freeze_count()
    clocks.scheduler.advance(CHECK_MS)
    assert gc.get_freeze_count() - before >= len(kept)
    assert collector.full_collections == 0


def test_an_idle_node_runs_no_full_collection(collector: GarbageCollector, clocks: Clocks) -> None:
    """A full collection stops the loop for 30 ms and more, and the next client waits for it."""
    kept = survivors(100)
    clocks.busy_share = 0.0
    clocks.blocks += FEW_BLOCKS - 1
    clocks.scheduler.advance(LONG_MS * 10)
    assert collector.full_collections == 0
    assert kept


def test_temporary_memory_of_large_requests_starts_no_full_collection(
    collector: GarbageCollector, clocks: Clocks
) -> None:
    for _ in range(3):
        clocks.blocks = 10 * BLOCKS
        clocks.scheduler.advance(CHECK_MS * (IDLE_CHECKS - 1))
        clocks.blocks = BLOCKS
        clocks.scheduler.advance(CHECK_MS)
    assert collector.full_collections == 0


def test_cycles_go_when_memory_has_doubled_and_the_loop_is_idle(collector: GarbageCollector, clocks: Clocks) -> None:
    node = Node()
    lost = weakref.ref(node)
    kept = survivors(2)
    clocks.scheduler.advance(CHECK_MS)
    del node
    clocks.blocks = IDLE_GROWTH * BLOCKS
    clocks.scheduler.advance(LONG_MS)
    assert collector.full_collections == 0, "the loop is busy"
    clocks.busy_share = 0.0
    clocks.scheduler.advance(LONG_MS)
    assert lost() is None
    assert collector.full_collections == 1
    clocks.scheduler.advance(LONG_MS * 3)
    assert collector.full_collections == 1, "that much is usual now"
    assert kept


def test_leaks_are_collected_even_if_the_loop_is_never_idle(collector: GarbageCollector, clocks: Clocks) -> None:
    clocks.blocks = BUSY_GROWTH * BLOCKS
    clocks.scheduler.advance(LONG_MS)
    assert collector.full_collections == 1


def test_a_stopped_one_does_nothing_more(collector: GarbageCollector, clocks: Clocks) -> None:
    collector.stop()
    kept = survivors(2)
    before = gc.get_freeze_count()
    clocks.scheduler.advance(CHECK_MS * 10)
    assert gc.get_freeze_count() == before
    assert kept
