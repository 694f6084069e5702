"""Fetch sessions: what is due to a client, and which session a request means (KIP-227)."""

import random
from typing import Any

import pytest

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch import sessions as sessions_module
from kpybroker.machines.fetch.session import LAST_EPOCH, NO_SESSION, FetchSession
from kpybroker.machines.fetch.sessions import ABANDONED_MS, EVICTION_MS, SWEEP_MS, FetchSessions
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.fetch import PackedTopic, codec_for
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


class FakeReplica:
    def __init__(self) -> None:
        self.watchers: dict[Any, None] = {}
        self.notified: dict[Any, None] = {}
        self.gone = False


def fetch(session_id: int, epoch: int, partitions: dict[int, int], forgotten: tuple[int, ...] = ()) -> FetchRequest:
    """A request for ``{partition: offset}`` of topic "t"."""
    wanted = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1000) for p, o in partitions.items()]
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forgotten))] if forgotten else [],
    )


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def test_a_request_without_a_session_keeps_none() -> None:
    cache = sessions()
    session = cache.begin(fetch(0, -1, {0: 5, 1: 6}), uses_ids=False, is_follower=False, now_ms=0)
    assert session.id == NO_SESSION
    assert [(e.index, e.fetch_offset) for e in session.entries.values()] == [(0, 5), (1, 6)]
    assert not cache.sessions


def test_a_kept_session_goes_on_by_its_epochs() -> None:
    cache = sessions()
    first = cache.begin(fetch(0, 0, {0: 5, 1: 6}), uses_ids=False, is_follower=False, now_ms=0)
    assert first.id in cache.sessions
    again = cache.resume(fetch(first.id, 1, {1: 9}), uses_ids=False, now_ms=1)
    assert again is first
    assert [e.fetch_offset for e in first.entries.values()] == [5, 9]
    for wrong in (1, 3):
        with pytest.raises(KafkaError) as error:
            cache.resume(fetch(first.id, wrong, {}), uses_ids=False, now_ms=2)
        assert error.value.code == error_codes.INVALID_FETCH_SESSION_EPOCH
    cache.resume(fetch(first.id, 2, {}), uses_ids=False, now_ms=3)


def test_the_epoch_after_the_last_one_is_one() -> None:
    session = FetchSession(3, uses_ids=False, now_ms=0)
    session.epoch = LAST_EPOCH
    session.next_epoch()
    assert session.epoch == 1


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(KafkaError) as error:
        sessions().resume(fetch(77, 1, {}), uses_ids=False, now_ms=0)
    assert error.value.code == error_codes.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_does_not_change_between_names_and_ids() -> None:
    cache = sessions()
    first = cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=0)
    with pytest.raises(KafkaError) as error:
        cache.resume(fetch(first.id, 1, {}), uses_ids=True, now_ms=0)
    assert error.value.code == error_codes.FETCH_SESSION_TOPIC_ID_ERROR
    with pytest.raises(KafkaError) as error:
        cache.resume(fetch(first.id, 1, {}), uses_ids=False, now_ms=0)
    assert error.value.code == error_codes.FETCH_SESSION_ID_NOT_FOUND, "it has ended"
    assert cache.partitions == 0


def test_forgetting_the_last_partition_ends_the_session() -> None:
    cache = sessions()
    first = cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=0)
    session_id = first.id
    again = cache.resume(fetch(session_id, 1, {}, forgotten=(0,)), uses_ids=False, now_ms=0)
    assert again.id == NO_SESSION
    assert session_id not in cache.sessions


def test_a_full_request_closes_the_session_it_names() -> None:
    cache = sessions()
    first = cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=0)
    session_id = first.id
    cache.begin(fetch(session_id, -1, {0: 0}), uses_ids=False, is_follower=False, now_ms=0)
    assert not cache.sessions


def test_without_room_a_client_gets_no_session() -> None:
    cache = sessions(slots=2)
    kept = [cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=0) for _ in range(3)]
    assert [session.id != NO_SESSION for session in kept] == [True, True, False]


def test_an_idle_session_makes_room_after_two_minutes() -> None:
    cache = sessions(slots=1)
    first = cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=0)
    later = EVICTION_MS + 1
    second = cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=later)
    assert list(cache.sessions.values()) == [second]
    assert first.entries == {}
    assert cache.evictions == 1


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_session_of_many_partitions_begins_in_steps_as_it_would_at_once(epoch: int) -> None:
    many = {number: number * 3 for number in range(200)}
    request = fetch(0, epoch, many)
    packed = packed_again(request)
    for asked in (request, packed):
        cache, other = sessions(), sessions()
        steps = cache.begin_in_steps(asked, uses_ids=False, is_follower=False, now_ms=5)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                session = end.value
                break
            assert not cache.sessions, "nobody sees a part of it"
        whole = other.begin(request, uses_ids=False, is_follower=False, now_ms=5)
        assert list(session.entries) == list(whole.entries) == [("t", number) for number in many]
        assert [each.fetch_offset for each in session.changed] == list(many.values())
        assert (session.id, cache.partitions) == (whole.id, other.partitions)


def packed_again(request: FetchRequest) -> FetchRequest:
    """The request as it comes from a client: its partitions are one piece of bytes."""
    decoded, _ = codec_for(12).decode(memoryview(encode(request, 12)), 0)
    assert [type(topic) for topic in decoded.topics] == [PackedTopic]
    return decoded


def test_a_cache_full_of_young_sessions_is_not_looked_through_for_each_request() -> None:
    """A client that fills it keeps nobody waiting with that, and the first to come still goes first."""
    looked_at: list[int] = []

    class Seen(dict[int, FetchSession]):
        def values(self) -> Any:
            for session in super().values():
                looked_at.append(session.id)
                yield session

    cache = sessions(slots=50)
    cache.sessions = Seen()
    first, *_ = [cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=n) for n in range(50)]
    for _ in range(2):
        looked_at.clear()  # once a minute all are checked
        cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=EVICTION_MS)
    assert len(cache.sessions) == 50
    assert looked_at == [first.id]
    cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=EVICTION_MS + 1)
    assert first.id not in cache.sessions


def test_idle_fetch_sessions_are_dropped_even_with_free_slots() -> None:
    cache = sessions(slots=10)
    abandoned = cache.begin(fetch(0, 0, {0: 0}), uses_ids=False, is_follower=False, now_ms=1)
    used = cache.begin(fetch(0, 0, {1: 0}), uses_ids=False, is_follower=False, now_ms=1)
    cache.resume(fetch(used.id, 1, {}), uses_ids=False, now_ms=ABANDONED_MS)
    cache.begin(fetch(0, 0, {2: 0}), uses_ids=False, is_follower=False, now_ms=ABANDONED_MS + SWEEP_MS)
    assert abandoned.id not in cache.sessions
    assert used.id in cache.sessions
    assert cache.partitions == 2


def test_sessions_with_too_many_partitions_together_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MOST_PARTITIONS", 100)
    cache = sessions()
    sixty = dict.fromkeys(range(60), 0)
    first = cache.begin(fetch(0, 0, sixty), uses_ids=False, is_follower=False, now_ms=0)
    assert first.id != NO_SESSION
    second = cache.begin(fetch(0, 0, sixty), uses_ids=False, is_follower=False, now_ms=0)
    assert second.id == NO_SESSION
    assert len(second.entries) == 60, "it is served all the same"
    with pytest.raises(KafkaError) as error:
        cache.resume(fetch(first.id, 1, dict.fromkeys(range(60, 110), 0)), uses_ids=False, now_ms=1)
    assert error.value.code == error_codes.FETCH_SESSION_ID_NOT_FOUND
    assert cache.partitions == 0
    third = cache.begin(fetch(0, 0, sixty), uses_ids=False, is_follower=False, now_ms=2)
    fourth = cache.begin(fetch(0, 0, sixty), uses_ids=False, is_follower=False, now_ms=3 + EVICTION_MS)
    assert third.id not in cache.sessions, "who is idle for long makes room"
    assert fourth.id in cache.sessions
    cache.resume(fetch(fourth.id, 1, {}, forgotten=tuple(range(59))), uses_ids=False, now_ms=4)
    assert cache.partitions == 1


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize(("added", "forgotten"), [(9, 0), (0, 9), (3, 5)])
def test_a_session_takes_few_changes_at_a_time_and_ends_at_more(
    monkeypatch: pytest.MonkeyPatch, added: int, forgotten: int, packed: bool
) -> None:
    """Topics and partitions count alike."""
    monkeypatch.setattr(sessions_module, "MOST_CHANGED", 10)
    for more in (0, 1):
        cache = sessions()
        session = cache.begin(fetch(0, 0, dict.fromkeys(range(9), 0)), uses_ids=False, is_follower=False, now_ms=0)
        wanted = dict.fromkeys(range(100, 100 + added + (more if added else 0)), 0)
        request = fetch(session.id, 1, wanted, tuple(range(forgotten + (0 if added else more))))
        if packed and added:
            monkeypatch.setattr("kpywire.fetch.PACKED_FROM_BYTES", 0)
            plain = fetch(session.id, 1, wanted)
            (topic,) = codec_for(12).decode(memoryview(encode(plain, 12)), 0)[0].topics
            assert isinstance(topic, PackedTopic)
            request.topics = [topic]
        if not more:
            assert cache.resume(request, uses_ids=False, now_ms=1) is session
            assert len(session.entries) == 9 + added - forgotten
            continue
        with pytest.raises(KafkaError) as error:
            cache.resume(request, uses_ids=False, now_ms=1)
        assert error.value.code == error_codes.FETCH_SESSION_ID_NOT_FOUND
        assert not cache.sessions
        assert cache.partitions == 0


def test_only_what_changed_is_due_and_what_had_data_goes_behind() -> None:
    cache = sessions()
    session = cache.begin(fetch(0, 0, {0: 0, 1: 0, 2: 0}), uses_ids=False, is_follower=False, now_ms=0)
    entries = list(session.entries.values())
    for entry in entries:
        entry.replica = FakeReplica()
        entry.watch()
        session.answered(entry, 10, 0, more=entry.index == 0)
    assert list(session.changed) == [entries[0]]
    entries[2].touch()
    session.answered(entries[0], 20, 0, more=True)
    assert list(session.changed) == [entries[2], entries[0]]


def test_a_change_wakes_the_parked_request_once() -> None:
    session = FetchSession(1, uses_ids=False, now_ms=0)
    session.add(fetch(0, 0, {0: 0, 1: 0}).topics)
    woken: list[int] = []
    session.wake = lambda: woken.append(1)
    for entry in session.entries.values():
        entry.touch()
    assert woken == [1]


def test_a_closed_session_watches_nothing() -> None:
    session = FetchSession(1, uses_ids=False, now_ms=0)
    session.add(fetch(0, 0, {0: 0}).topics)
    replica = FakeReplica()
    entry = next(iter(session.entries.values()))
    entry.replica = replica
    entry.watch()
    assert replica.watchers
    session.close()
    assert not replica.watchers


def test_partitions_without_room_come_first_in_the_next_answer() -> None:
    session = sessions().begin(fetch(0, 0, {0: 0, 1: 0, 2: 0}), uses_ids=False, is_follower=False, now_ms=0)
    answered, held_back, read_out = session.entries.values()
    held_back.held_back = True
    session.answered(answered, high_watermark=9, log_start_offset=0, more=True)
    session.answered(held_back, high_watermark=9, log_start_offset=0, more=False)
    session.answered(read_out, high_watermark=0, log_start_offset=0, more=False)
    assert list(session.changed) == [held_back, answered]


def test_a_session_may_begin_with_nothing_to_read() -> None:
    cache = sessions()
    session = cache.begin(fetch(0, 0, {}), uses_ids=False, is_follower=False, now_ms=0)
    assert session.id in cache.sessions
    again = cache.resume(fetch(session.id, 1, {3: 0}), uses_ids=False, now_ms=1)
    assert [entry.index for entry in again.entries.values()] == [3]


def test_a_partition_both_added_and_forgotten_is_forgotten() -> None:
    cache = sessions()
    session = cache.begin(fetch(0, 0, {0: 5}), uses_ids=False, is_follower=False, now_ms=0)
    cache.resume(fetch(session.id, 1, {1: 0}, forgotten=(1,)), uses_ids=False, now_ms=1)
    assert [entry.index for entry in session.entries.values()] == [0]
