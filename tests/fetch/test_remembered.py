"""Reads of clients without a session are known again by their bytes, and changes are noticed."""

from typing import Any

import pytest

from kpybroker.machines.fetch.remembered import NotRemembered, RememberedBudget, RememberedFetch, SessionlessFetch
from kpybroker.machines.fetch.session import CachedPartition
from kpywire import codec
from kpywire.fetch import PackedTopic, codec_for
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

VERSION = 12
FILLER = 100
"""Partitions that make a request large enough to stay bytes."""


class FakeReplica:
    def __init__(self) -> None:
        self.watchers: dict[Any, None] = {}
        self.notified: dict[Any, None] = {}


def remembered(most: int = 1000) -> RememberedFetch:
    return RememberedFetch(VERSION, 0, uses_ids=False, budget=RememberedBudget(most))


def topics(*asked: tuple[str, list[tuple[int, int]]]) -> list[PackedTopic]:
    """The topics of ``(name, [(partition, offset)])``, as they come in."""
    filler = ("filler", [(index, 0) for index in range(FILLER)])
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(
                topic=name,
                partitions=[FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=9) for p, o in partitions],
            )
            for name, partitions in (*asked, filler)
        ],
    )
    found, _ = codec_for(VERSION).decode(memoryview(codec.encode(request, VERSION)), 0)
    return found.topics[: len(asked)]  # type: ignore[return-value]


def places(entries: list[list[CachedPartition]]) -> list[tuple[Any, int, int]]:
    return [(entry.topic, entry.index, entry.fetch_offset) for of_topic in entries for entry in of_topic]


def settle(entries: list[list[CachedPartition]]) -> None:
    for of_topic in entries:
        for entry in of_topic:
            entry.session.changed.pop(entry, None)
            if entry.replica is None:
                entry.replica = FakeReplica()  # type: ignore[assignment]
                entry.watch()


def test_the_same_request_in_any_order_has_the_same_entries_and_no_change() -> None:
    one = remembered()
    first = one.take(topics(("a", [(0, 5), (1, 6)]), ("b", [(0, 7)])))
    assert len(one.session.changed) == 3
    settle(first)
    again = one.take(topics(("b", [(0, 7)]), ("a", [(1, 6), (0, 5)])))
    assert places(again) == [("b", 0, 7), ("a", 1, 6), ("a", 0, 5)]
    assert {id(e) for each in again for e in each} == {id(e) for each in first for e in each}
    assert not one.session.changed


def test_new_partitions_and_changed_positions_count_as_changed() -> None:
    one = remembered()
    settle(one.take(topics(("a", [(0, 5), (1, 6)]))))
    found = one.take(topics(("a", [(0, 5), (1, 8), (2, 0)]), ("b", [(0, 1)])))
    assert places(found) == [("a", 0, 5), ("a", 1, 8), ("a", 2, 0), ("b", 0, 1)]
    assert [(e.topic, e.index) for e in one.session.changed] == [("a", 1), ("a", 2), ("b", 0)]


def test_partitions_that_leave_the_request_are_not_watched() -> None:
    one = remembered()
    first = one.take(topics(("a", [(0, 5), (1, 6)]), ("b", [(0, 7)])))
    settle(first)
    replicas: list[Any] = [entry.replica for of_topic in first for entry in of_topic]
    assert all(replica.watchers for replica in replicas)
    one.take(topics(("a", [(1, 6)])))
    assert [bool(replica.watchers) for replica in replicas] == [False, True, False]
    assert list(one.session.entries) == [("a", 1)]
    one.close()
    assert not any(replica.watchers for replica in replicas)


@pytest.mark.parametrize(
    "asked",
    [
        (("a", [(0, 5), (0, 5)]),),
        (("a", [(0, 5), (0, 6)]),),
        (("a", [(0, 6), (0, 5)]),),
        (("a", [(0, 5)]), ("a", [(1, 5)])),
    ],
)
def test_a_partition_named_twice_is_no_case_for_remembering(asked: Any) -> None:
    one = remembered()
    settle(one.take(topics(("a", [(0, 5), (1, 6)]))))
    with pytest.raises(NotRemembered):
        one.take(topics(*asked))


def test_there_is_room_for_so_many_partitions_of_all_clients_together() -> None:
    budget = RememberedBudget(3)
    first, second = (RememberedFetch(VERSION, 0, uses_ids=False, budget=budget) for _ in range(2))
    first.take(topics(("a", [(0, 0), (1, 0)])))
    with pytest.raises(NotRemembered):
        second.take(topics(("a", [(0, 0), (1, 0)])))
    second.close()
    first.take(topics(("a", [(0, 0), (1, 0), (2, 0)])))
    assert budget.left == 0
    first.close()
    assert budget.left == 3


def test_a_partition_that_is_not_asked_for_any_more_is_not_due() -> None:
    one = remembered()
    one.take(topics(("a", [(0, 5), (1, 6)]), ("b", [(0, 7)])))
    one.take(topics(("a", [(1, 6)])))
    assert [(e.topic, e.index) for e in one.session.changed] == [("a", 1)]


def test_a_connection_that_is_gone_gives_back_what_it_took_and_watches_nothing() -> None:
    budget = RememberedBudget(5)
    one = RememberedFetch(VERSION, 1, uses_ids=False, budget=budget)
    assert (one.version, one.isolation, one.session.lasts) == (VERSION, 1, True)
    found = one.take(topics(("a", [(0, 5), (1, 6)]), ("b", [(0, 7)])))
    settle(found)
    assert budget.left == 2
    replica: Any = found[0][0].replica
    SessionlessFetch("c", found[0], one).close()
    assert budget.left == 5
    assert not replica.watchers
    assert not one.session.entries
    SessionlessFetch("c", ()).close()


def test_the_whole_budget_may_be_taken_and_no_more() -> None:
    assert len(remembered(3).take(topics(("a", [(0, 5), (1, 6), (2, 7)])))[0]) == 3
    with pytest.raises(NotRemembered):
        remembered(2).take(topics(("a", [(0, 5), (1, 6), (2, 7)])))
