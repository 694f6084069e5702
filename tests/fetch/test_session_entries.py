"""The partitions of a fetch session: positions, who is notified of their changes, and which session makes room."""

import random
from typing import Any

import pytest

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.session import NO_SESSION, CachedPartition, FetchSession
from kpybroker.machines.fetch.sessions import ABANDONED_MS, EVICTION_MS, MOST_REMEMBERED, SWEEP_MS, FetchSessions
from kpybroker.runtime.calls.steps import at_once
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


class FakeReplica:
    def __init__(self) -> None:
        self.watchers: dict[Any, None] = {}
        self.notified: dict[Any, None] = {}
        self.following: dict[Any, None] = {}


class FakeFollower:
    def __init__(self) -> None:
        self.left: list[Any] = []

    def leave_session(self, clock: Any) -> None:
        self.left.append(clock)


def topics(*partitions: FetchPartition) -> list[FetchTopic]:
    return [FetchTopic(topic="t", partitions=list(partitions))]


def numbered(count: int) -> list[FetchTopic]:
    return topics(*(FetchPartition(partition=each) for each in range(count)))


def session_of(count: int = 1, *, is_follower: bool = False) -> tuple[FetchSession, list[CachedPartition]]:
    session = FetchSession(7, 0, uses_ids=False, is_follower=is_follower)
    session.add(numbered(count))
    return session, list(session.entries.values())


def watched(entry: CachedPartition) -> FakeReplica:
    replica = FakeReplica()
    entry.replica = replica  # type: ignore[assignment]
    entry.watch()
    return replica


def test_a_partition_is_read_as_its_last_request_wants() -> None:
    session, (entry,) = session_of()
    wanted = FetchPartition(
        partition=0,
        fetch_offset=11,
        partition_max_bytes=12,
        current_leader_epoch=13,
        last_fetched_epoch=14,
        log_start_offset=15,
    )
    session.changed.clear()
    session.add(topics(wanted))
    found = (entry.fetch_offset, entry.max_bytes, entry.leader_epoch, entry.last_fetched_epoch, entry.log_start_offset)
    assert found == (11, 12, 13, 14, 15)
    assert list(session.changed) == [entry], "it moved, so it is due"
    assert list(session.entries.values()) == [entry]


def test_a_new_partition_has_seen_nothing() -> None:
    entry = CachedPartition(FetchSession(NO_SESSION, 0, uses_ids=False), "t", 3)
    assert (entry.fetch_offset, entry.max_bytes, entry.held_back) == (0, 0, False)
    unknown = (entry.leader_epoch, entry.last_fetched_epoch, entry.log_start_offset)
    assert (*unknown, entry.sent_high_watermark, entry.sent_log_start_offset) == (-1,) * 5
    assert not entry.session.lasts


def test_an_answer_is_remembered_with_its_offsets() -> None:
    session, (entry,) = session_of()
    session.answered(entry, 20, 5, more=False)
    assert (entry.sent_high_watermark, entry.sent_log_start_offset) == (20, 5)
    assert not session.changed
    entry.held_back = True
    session.answered(entry, 30, 6, more=True)
    assert (entry.sent_high_watermark, entry.sent_log_start_offset) == (30, 6)


def test_a_consumer_that_looks_again_is_notified_again() -> None:
    _, (entry,) = session_of()
    replica = watched(entry)
    assert list(replica.watchers) == [entry]
    replica.watchers.clear()
    replica.notified[entry] = None
    entry.watch()
    assert (list(replica.watchers), replica.notified, replica.following) == ([entry], {}, {})


def test_a_partition_that_is_forgotten_is_neither_watched_nor_due() -> None:
    session, (entry, other) = session_of(2)
    replica = watched(entry)
    replica.notified[entry] = None
    session.forget([ForgottenTopic(topic="t", partitions=[0, 9])])
    assert (replica.watchers, replica.notified, entry.replica) == ({}, {}, None)
    assert list(session.changed) == [other]
    assert list(session.entries.values()) == [other]


def test_a_follower_stays_notified_until_its_session_ends() -> None:
    session, (entry,) = session_of(is_follower=True)
    replica, follower = watched(entry), FakeFollower()
    entry.follower = follower  # type: ignore[assignment]
    assert (list(replica.following), replica.watchers) == ([entry], {})
    session.close()
    assert (replica.following, entry.replica, entry.follower) == ({}, None, None)
    assert follower.left == [session.clock], "its fetches no longer count as those of the replica"


def test_a_follower_leaves_its_replica_only_once() -> None:
    session, (entry,) = session_of(is_follower=True)
    follower = FakeFollower()
    entry.follower = follower  # type: ignore[assignment]
    entry.rest()
    entry.rest()
    entry.unwatch()
    assert follower.left == [session.clock]


def test_a_partition_that_is_unknown_is_watched_nowhere() -> None:
    _, (entry,) = session_of()
    entry.watch()
    entry.unwatch()
    assert entry.replica is None


def test_a_closed_session_has_nothing_left_to_wake() -> None:
    session, (entry, _) = session_of(2)
    session.wake = lambda: pytest.fail("nobody waits")
    session.close()
    assert (session.entries, session.changed, session.wake) == ({}, {}, None)
    entry.touch()


def test_a_new_log_start_offset_does_not_wake_a_waiting_fetch() -> None:
    session, (entry,) = session_of()
    session.changed.clear()
    session.wake = lambda: pytest.fail("a waiting request is not answered for it")
    entry.mark()
    assert list(session.changed) == [entry]


def begun(
    cache: FetchSessions, partitions: int, now_ms: float, *, is_follower: bool = False, session_id: int = 0
) -> FetchSession:
    request = FetchRequest(session_id=session_id, session_epoch=0, topics=numbered(partitions))
    return cache.begin(request, uses_ids=False, is_follower=is_follower, now_ms=now_ms)


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        ((2, False), (3, False), True),
        ((2, False), (2, False), False),
        ((3, False), (2, False), False),
        ((9, False), (1, True), True),
        ((1, True), (9, False), False),
        ((1, True), (2, True), True),
    ],
    ids=["larger", "equal", "smaller", "follower", "consumer after follower", "larger follower"],
)
def test_a_used_session_is_evicted_for_a_larger_or_a_followers_session(
    before: tuple[int, bool], after: tuple[int, bool], is_kept: bool
) -> None:
    cache = FetchSessions(1, random.Random(1))
    first = begun(cache, before[0], 0, is_follower=before[1])
    for now_ms, kept in ((EVICTION_MS, False), (EVICTION_MS + 1, is_kept)):
        request = FetchRequest(session_id=first.id, session_epoch=first.epoch)
        cache.resume(request, uses_ids=False, now_ms=now_ms)
        second = begun(cache, after[0], now_ms, is_follower=after[1])
        assert (second.id != NO_SESSION) == kept
        assert list(cache.sessions.values()) == [second if kept else first]
        assert cache.evictions == int(kept)
    assert cache.partitions == len(next(iter(cache.sessions.values())).entries)


def test_the_session_that_was_idle_longest_is_evicted() -> None:
    cache = FetchSessions(3, random.Random(1))
    one, two, three = (begun(cache, 1, 0) for _ in range(3))
    for session, now_ms in ((one, 3), (two, 1), (three, 2)):
        cache.resume(FetchRequest(session_id=session.id, session_epoch=1), uses_ids=False, now_ms=now_ms)
    begun(cache, 1, EVICTION_MS + 10)
    assert set(cache.sessions.values()) > {one, three}
    assert two not in cache.sessions.values()


def test_without_slots_there_are_no_sessions() -> None:
    cache = FetchSessions(0, random.Random(1))
    assert begun(cache, 1, 0).id == NO_SESSION
    assert cache.partitions == 0


def test_a_session_that_begins_again_takes_the_place_of_the_old_one() -> None:
    for in_steps in (False, True):
        cache = FetchSessions(1, random.Random(1))
        first = begun(cache, 3, 0)
        request = FetchRequest(session_id=first.id, session_epoch=0, topics=numbered(2))
        if in_steps:
            steps = cache.begin_in_steps(request, uses_ids=False, is_follower=True, now_ms=1)
            second = at_once(steps)
        else:
            second = cache.begin(request, uses_ids=False, is_follower=True, now_ms=1)
        assert list(cache.sessions.values()) == [second]
        assert (second.is_follower, second.lasts, cache.partitions, cache.evictions) == (True, True, 2, 0)
        with pytest.raises(KafkaError):
            cache.resume(FetchRequest(session_id=first.id, session_epoch=1), uses_ids=False, now_ms=1)


def test_sessions_have_ids_of_their_own() -> None:
    cache = FetchSessions(100, random.Random(1))
    ids = {begun(cache, 1, 0).id for _ in range(100)}
    assert len(ids) == 100
    assert NO_SESSION not in ids


def test_a_full_cache_does_not_evict_a_recent_session_for_a_new_one() -> None:
    cache = FetchSessions(2, random.Random(1))
    old = begun(cache, 9, 0)
    now_ms = EVICTION_MS + 1
    young = begun(cache, 1, now_ms)
    cache.resume(FetchRequest(session_id=old.id, session_epoch=1), uses_ids=False, now_ms=now_ms)
    assert begun(cache, 5, now_ms).id == NO_SESSION
    assert list(cache.sessions.values()) == [old, young]


def test_an_idle_session_stays_for_two_minutes_exactly() -> None:
    cache = FetchSessions(1, random.Random(1))
    first = begun(cache, 1, 0)
    cache.resume(FetchRequest(session_id=first.id, session_epoch=1), uses_ids=False, now_ms=5)
    assert begun(cache, 1, EVICTION_MS + 5).id == NO_SESSION
    assert begun(cache, 1, EVICTION_MS + 6).id != NO_SESSION


def test_abandoned_sessions_are_searched_once_a_minute() -> None:
    cache = FetchSessions(10, random.Random(1))
    begun(cache, 1, SWEEP_MS)
    begun(cache, 1, SWEEP_MS + 1)
    begun(cache, 1, SWEEP_MS + ABANDONED_MS + 1)
    assert cache.evictions == 1, "the second one is not abandoned yet"
    begun(cache, 1, 2 * SWEEP_MS + ABANDONED_MS)
    assert cache.evictions == 1
    begun(cache, 1, 2 * SWEEP_MS + ABANDONED_MS + 1)
    assert cache.evictions == 2
    assert FetchSessions(1, random.Random(1)).remembered_budget.left == MOST_REMEMBERED
