"""The times of records that only the store has: read once, few at a time, and not while the store is away."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from remote_log_histories import TOPIC_ID, segment, update

from kpybroker.hosts.remote_log import first_times, segment_reads
from kpybroker.hosts.remote_log.first_times import FAILED_MS, MOST_AT_ONCE, FirstTimes, StoredPosition
from kpybroker.hosts.remote_log.remote_storage import StoreFailed
from kpybroker.machines.lag import NO_TIME
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import FINISHED
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire.batch import parse_header
from kpywire.record import Record, build_batch

END = 30
EMPTY_FROM, EMPTY_BELOW = 10, 20
"""The offsets of the segment in the middle, of which nothing is left."""


class Store:
    """The reads that were begun, and a store in which the time of a record is ten times its offset."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun: list[tuple[Callable[[], Any], Callable[[Any, Any], object]]] = []
        self.is_away = False
        self.role: Any = SimpleNamespace(
            log=SimpleNamespace(epochs=SimpleNamespace(entries=lambda: [(1, 0)])),
            high_watermark=SimpleNamespace(offset=END),
        )
        self.segments = RemoteSegments(TOPIC_ID, "t", 0)
        for number, first in enumerate(range(0, END, 10)):
            made = segment(number, first, first + 9, [(1, first)])
            self.segments.apply(made)
            self.segments.apply(update(made, FINISHED))
        self.scheduler = ManualScheduler()
        storage: Any = self
        self.times = FirstTimes(self.scheduler, storage, lambda work, done: self.begun.append((work, done)))
        patch.setattr(segment_reads, "first_header", self.first_header)

    def first_header(self, _storage: object, found: Any, offset: int, until_offset: int) -> Any:
        if self.is_away:
            raise StoreFailed("away")
        if found.start_offset == EMPTY_FROM or offset >= until_offset:
            return None
        return parse_header(build_batch([Record(timestamp=10 * offset, value=b"v")]))

    def at(self, offset: int) -> int | None:
        return self.times.at(StoredPosition(TOPIC_ID, 0, 1, offset), self.role, self.segments)

    def work(self) -> int:
        """Do what was begun. Returns the number of reads."""
        begun, self.begun = self.begun, []
        for work, done in begun:
            try:
                found = work()
            except StoreFailed as error:
                done(None, error)
            else:
                done(found, None)
        return len(begun)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store(monkeypatch)


def test_a_time_is_read_once_and_then_known(store: Store) -> None:
    assert store.at(3) is None
    assert store.at(3) is None
    assert store.work() == 1
    assert store.at(3) == 30
    assert store.begun == []


def test_few_are_read_at_once_and_all_in_the_end(store: Store) -> None:
    offsets = range(8)
    assert {store.at(offset) for offset in offsets} == {None}
    while store.begun:
        assert store.work() <= MOST_AT_ONCE
    assert [store.at(offset) for offset in offsets] == [10 * offset for offset in offsets]


def test_a_segment_without_a_batch_from_there_on_is_passed_over(store: Store) -> None:
    assert store.at(EMPTY_FROM + 2) is None
    assert store.work() == 1
    assert store.work() == 1
    assert store.at(EMPTY_FROM + 2) == 10 * EMPTY_BELOW


def test_a_position_that_no_segment_has_is_not_asked_for(store: Store) -> None:
    assert store.at(END) is None
    assert store.begun == []


def test_a_position_behind_which_nothing_is_left_has_no_time(store: Store) -> None:
    store.role.high_watermark.offset = EMPTY_BELOW
    assert store.at(EMPTY_FROM) is None
    while store.begun:
        store.work()
    assert store.at(EMPTY_FROM) == NO_TIME


def test_a_store_that_is_away_is_left_alone_for_a_while(store: Store) -> None:
    store.is_away = True
    assert {store.at(offset) for offset in range(8)} == {None}
    assert store.work() == MOST_AT_ONCE
    assert store.work() == 0, "what waited is dropped"
    store.is_away = False
    assert store.at(3) is None
    assert store.work() == 0
    store.scheduler.advance(int(FAILED_MS))
    assert store.at(3) is None
    assert store.work() == 1
    assert store.at(3) == 30


def test_the_longest_unused_times_are_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_times, "MOST_KNOWN", 2)
    for offset in (1, 2):
        store.at(offset)
        store.work()
    assert store.at(1) == 10
    store.at(3)
    store.work()
    assert [store.at(offset) for offset in (1, 3, 2)] == [10, 30, None]
