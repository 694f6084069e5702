"""A reader of a partition hears of its changes once, until it has looked; one that waits hears of every change."""

from typing import Any

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.fetch.session import CachedPartition, FetchSession

INDEX = 3


def replica() -> Replica:
    held: Any = type("Topic", (), {"name": "t"})()
    partition: Any = None
    return Replica(held, INDEX, partition, 1, lambda _replica: None)  # type: ignore[arg-type, return-value]


def reader(of: Replica) -> CachedPartition:
    """One that has seen all there is."""
    session = FetchSession(1, uses_ids=False, now_ms=0)
    entry = session.entries["t", INDEX] = CachedPartition(session, "t", INDEX)
    entry.replica = of
    entry.watch()
    return entry


def look(entry: CachedPartition) -> None:
    entry.session.changed.pop(entry)
    entry.watch()


def test_a_reader_that_does_not_look_costs_the_next_change_nothing() -> None:
    read = replica()
    readers = [reader(read) for _ in range(1_000)]
    read.changed()
    assert all(list(entry.session.changed) == [entry] for entry in readers)
    assert not read.watchers
    look(readers[0])
    assert list(read.watchers) == [readers[0]], "the next change reaches the one who has looked"
    read.changed()
    assert list(readers[0].session.changed) == [readers[0]]
    assert len(read.notified) == len(readers)


def test_a_reader_that_waits_is_woken_by_what_comes_after_the_start_of_the_log_has_moved() -> None:
    read = replica()
    waits, idle = reader(read), reader(read)
    woken: list[str] = []
    waits.session.wake = lambda: woken.append("woken")
    read.log_start_moved()
    assert [list(entry.session.changed) for entry in (waits, idle)] == [[waits], [idle]]
    assert not woken
    read.changed()
    assert woken == ["woken"]


def test_a_deleted_partition_answers_all_its_waiting_readers() -> None:
    read = replica()
    looked, notified = reader(read), reader(read)
    read.changed()
    look(looked)
    read.forget()
    assert looked.replica is None
    assert notified.replica is None
    assert not read.watchers
    assert not read.notified
