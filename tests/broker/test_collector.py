"""The garbage collector of a broker's process: what lives long is not walked, and cycles go when there is time."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kpybroker.io.collector import CHECK_MS, IDLE_CHECKS, MUCH, TOO_MUCH, YOUNG_OBJECTS, Collector
from kpybroker.io.scheduler import ManualScheduler

NS_PER_MS = 1_000_000


class Node:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class Clocks:
    """A thread that computes for a share of the time."""

    def __init__(self, scheduler: ManualScheduler) -> None:
        self.scheduler = scheduler
        self.busy_share = 1.0

    def now_ns(self) -> int:
        return int(self.scheduler.monotonic_ms() * NS_PER_MS)

    def worked_ns(self) -> int:
        return int(self.now_ns() * self.busy_share)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks(ManualScheduler())


@pytest.fixture
def collector(clocks: Clocks) -> Iterator[Collector]:
    before = gc.get_threshold()
    made = Collector(clocks.scheduler, clocks.now_ns, clocks.worked_ns)
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


def test_what_survives_a_young_collection_is_frozen(collector: Collector, clocks: Clocks) -> None:
    kept = survivors(2)
    before = gc.get_freeze_count()
    clocks.scheduler.advance(CHECK_MS)
    assert gc.get_freeze_count() - before >= len(kept)
    assert collector.full_collections == 0


def test_nothing_is_walked_where_what_survived_was_freed_later(collector: Collector, clocks: Clocks) -> None:
    """Such as large requests: a client that sends many of them does not make the loop stand still."""
    collector._collect_all()
    for _ in range(3):
        survivors(TOO_MUCH // 2)
        clocks.scheduler.advance(CHECK_MS)
    clocks.busy_share = 0.0
    clocks.scheduler.advance(CHECK_MS * (IDLE_CHECKS + 1))
    assert collector.full_collections == 1


def test_cycles_among_it_go_when_the_loop_has_been_idle(collector: Collector, clocks: Clocks) -> None:
    node = Node()
    lost = weakref.ref(node)
    kept = survivors(MUCH + 1)
    clocks.scheduler.advance(CHECK_MS)
    del node
    clocks.scheduler.advance(CHECK_MS * IDLE_CHECKS)
    assert lost() is not None
    assert collector.full_collections == 0
    clocks.busy_share = 0.0
    clocks.scheduler.advance(CHECK_MS * (IDLE_CHECKS + 1))
    assert lost() is None
    assert collector.full_collections == 1
    clocks.scheduler.advance(CHECK_MS * IDLE_CHECKS * 3)
    assert collector.full_collections == 1  # nothing to look at any more
    assert kept


def test_what_the_start_left_behind_goes_when_the_loop_is_idle(collector: Collector, clocks: Clocks) -> None:
    node = Node()
    lost = weakref.ref(node)
    del node
    clocks.busy_share = 0.0
    collector.stop()
    collector.start()
    clocks.scheduler.advance(CHECK_MS * (IDLE_CHECKS - 1))
    assert lost() is not None
    clocks.scheduler.advance(CHECK_MS * 2)
    assert lost() is None


def test_where_the_loop_is_never_idle_very_much_is_looked_at_all_the_same(
    collector: Collector, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "get_count", lambda: (0, TOO_MUCH, 0))
    clocks.scheduler.advance(CHECK_MS)
    assert collector.full_collections == 0, "what survived a young collection was freed soon, such as large requests"
    monkeypatch.setattr(collector, "_blocks", lambda: 10 * TOO_MUCH * YOUNG_OBJECTS)
    clocks.scheduler.advance(CHECK_MS)
    assert collector.full_collections == 1


def test_a_stopped_one_does_nothing_more(collector: Collector, clocks: Clocks) -> None:
    collector.stop()
    kept = survivors(2)
    before = gc.get_freeze_count()
    clocks.scheduler.advance(CHECK_MS * 10)
    assert gc.get_freeze_count() == before
    assert kept
