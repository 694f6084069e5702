"""The requests to a leader, compared with the sessions that the leader's side keeps."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.sessions import FULL, FetchSessions
from kpybroker.machines.partition.follower import NextFetch
from kpybroker.machines.replica_fetcher import (
    Fetcher,
    FetchLimits,
    FetchState,
    Following,
    Reaction,
    SessionPartition,
    reaction_to,
)
from kpywire import codec, error_codes
from kpywire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

LIMITS = FetchLimits(500, 1, 1 << 20, 1 << 16, 1000.0)
TOPICS = (bytes(15) + b"\1", bytes(15) + b"\2")


class Played:
    """A follower as the fetcher sees it."""

    def __init__(self, offset: int = 0, epoch: int = 1) -> None:
        self.log = SimpleNamespace(end=SimpleNamespace(offset=offset))
        self.epoch = epoch
        self.log_start_offset = 0

    @property
    def next_fetch(self) -> NextFetch:
        return NextFetch(self.log.end.offset, self.epoch - 1, self.log_start_offset)


def following(topic: int = 0, index: int = 0, offset: int = 0, epoch: int = 1) -> Following:
    played: Any = Played(offset, epoch)
    return Following((TOPICS[topic], index), played, None)


def new_fetcher() -> Fetcher:
    return Fetcher(3, lambda: 77, lambda: LIMITS)


def freely(_following: Following) -> bool:
    return False


def ask(fetcher: Fetcher, now_ms: float = 0.0) -> FetchRequest:
    request = fetcher.request(now_ms, freely)
    assert request is not None
    return request


def named(request: FetchRequest) -> list[tuple[int, int]]:
    return [(TOPICS.index(t.topic_id), p.partition) for t in request.topics for p in t.partitions]


def forgotten(request: FetchRequest) -> list[tuple[int, int]]:
    return [(TOPICS.index(t.topic_id), index) for t in request.forgotten_topics_data for index in t.partitions]


def reported(code: int, index: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=index, error_code=code, high_watermark=0, aborted_transactions=None, records=b""
    )


def answer(*partitions: tuple[int, int, int], session_id: int = 5, error_code: int = 0) -> FetchResponse:
    """An answer with one (topic, index, error code) each."""
    responses = [
        FetchableTopicResponse(
            topic_id=TOPICS[topic],
            partitions=[reported(code, index)],
        )
        for topic, index, code in partitions
    ]
    return FetchResponse(throttle_time_ms=0, error_code=error_code, session_id=session_id, responses=responses)


def taken(fetcher: Fetcher, response: FetchResponse) -> list[Following]:
    answers = fetcher.answered(response)
    assert answers is not None
    return [each for each, _, _ in answers]


def test_the_first_request_names_everything_and_the_next_ones_what_has_moved() -> None:
    fetcher = new_fetcher()
    one, two = following(0, 0, 10), following(1, 4, 20)
    fetcher.add(one)
    fetcher.add(two)
    first = ask(fetcher)
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [(0, 0), (1, 4)])
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (3, 77)
    asked = first.topics[1].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (20, 0, 1)
    assert asked.partition_max_bytes == LIMITS.partition_max_bytes
    assert taken(fetcher, answer((0, 0, 0), (1, 4, 0))) == [one, two]
    nothing = ask(fetcher)
    assert (nothing.session_id, nothing.session_epoch, named(nothing)) == (5, 1, [])
    assert taken(fetcher, answer()) == []
    two.follower.log.end.offset = 21  # type: ignore[misc]
    fetcher.moved(two.key)
    fetcher.moved(one.key)  # which is where it was
    moved = ask(fetcher)
    assert (moved.session_epoch, named(moved), forgotten(moved)) == (2, [(1, 4)], [])
    taken(fetcher, answer())
    fetcher.remove(one.key)
    assert forgotten(ask(fetcher)) == [(0, 0)]
    codec.encode(moved, 17)


def test_no_fetch_is_sent_without_partitions_and_the_last_removal_is_sent() -> None:
    fetcher = new_fetcher()
    assert fetcher.request(0, freely) is None
    fetcher.add(following())
    taken_response = ask(fetcher)
    assert named(taken_response) == [(0, 0)]
    taken(fetcher, answer((0, 0, 0)))
    fetcher.remove((TOPICS[0], 0))
    last = ask(fetcher)
    assert forgotten(last) == [(0, 0)]
    taken(fetcher, answer(session_id=0))
    assert fetcher.request(0, freely) is None
    fetcher.add(following())
    assert (ask(fetcher).session_id, fetcher.session_epoch) == (0, 0)


@pytest.mark.parametrize(
    ("response", "session_id"),
    [
        (answer(error_code=error_codes.FETCH_SESSION_ID_NOT_FOUND), 0),
        (answer(error_code=error_codes.INVALID_FETCH_SESSION_EPOCH), 5),
        (answer((1, 9, 0)), 5),  # what was not asked for
        (None, 5),  # a lost connection
    ],
)
def test_a_session_that_is_not_what_it_should_be_is_begun_anew(response: FetchResponse | None, session_id: int) -> None:
    fetcher = new_fetcher()
    fetcher.add(following())
    ask(fetcher)
    taken(fetcher, answer((0, 0, 0)))
    ask(fetcher)
    if response is None:
        fetcher.lost()
    else:
        assert fetcher.answered(response) is None
    again = ask(fetcher)
    assert (again.session_id, again.session_epoch, named(again)) == (session_id, 0, [(0, 0)])


def test_a_full_answer_has_to_name_all_partitions() -> None:
    fetcher = new_fetcher()
    fetcher.add(following(0, 0))
    fetcher.add(following(0, 1))
    ask(fetcher)
    assert fetcher.answered(answer((0, 0, 0))) is None
    assert (ask(fetcher).session_id, fetcher.session_epoch) == (0, 0)


def test_an_answer_to_an_earlier_epoch_or_offset_or_to_a_partition_that_waits_is_ignored() -> None:
    fetcher = new_fetcher()
    one, two, three, four = (following(0, index) for index in range(4))
    for each in (one, two, three, four):
        fetcher.add(each)
    ask(fetcher)
    fetcher.add(following(0, 0, epoch=2))
    two.follower.log.end.offset = 1  # type: ignore[misc]
    fetcher.stop(three, FetchState.ASKING)
    assert taken(fetcher, answer(*((0, index, 0) for index in range(4)))) == [four]


@pytest.mark.parametrize("left", [False, True])
def test_a_partition_whose_answer_came_too_late_is_taken_into_the_session_anew(left: bool) -> None:
    fetcher = new_fetcher()
    one = following(0, 0)
    fetcher.add(one)
    fetcher.add(following(0, 1))
    ask(fetcher)
    if left:  # and has come back before the next request
        fetcher.remove(one.key)
    else:
        fetcher.add(following(0, 0, epoch=2))
    assert [each.key[1] for each in taken(fetcher, answer((0, 0, 0), (0, 1, 0)))] == [1]
    fetcher.add(following(0, 0, epoch=2))
    without = ask(fetcher)
    assert (named(without), forgotten(without), without.max_wait_ms) == ([], [(0, 0)], 1)
    taken(fetcher, answer())
    again = ask(fetcher)
    assert (named(again), forgotten(again), again.max_wait_ms) == ([(0, 0)], [], LIMITS.max_wait_ms)


def test_errors_delay_a_partition_longer_and_longer_and_the_leader_lets_no_request_wait_beyond_that() -> None:
    fetcher = new_fetcher()
    one, two = following(0, 0), following(0, 1)
    fetcher.add(one)
    fetcher.add(two)
    ask(fetcher)
    taken(fetcher, answer((0, 0, 0), (0, 1, 6)))
    waits = []
    now_ms = 0.0
    for _ in range(9):
        waits.append(fetcher.delay(two, now_ms))
        without = ask(fetcher, now_ms)
        assert without.max_wait_ms == min(500, waits[-1])
        assert (0, 1) not in named(without)
        taken(fetcher, answer())
        assert fetcher.next_wake_ms() == now_ms + waits[-1]
        now_ms += waits[-1]
        assert named(ask(fetcher, now_ms)) == [(0, 1)]
        taken(fetcher, answer())
    assert waits == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]


def test_throttled_partitions_leave_the_fetch_session_and_come_back() -> None:
    fetcher = new_fetcher()
    one, two = following(0, 0), following(0, 1)
    fetcher.add(one)
    fetcher.add(two)
    ask(fetcher)
    taken(fetcher, answer((0, 0, 0), (0, 1, 0)))
    fetcher.moved(two.key)
    request = fetcher.request(0, lambda each: each is two, 40.0)
    assert request is not None
    assert (forgotten(request), request.max_wait_ms) == ([(0, 1)], 40)
    taken(fetcher, answer())
    fetcher.moved(two.key)
    assert named(ask(fetcher)) == [(0, 1)]


@pytest.mark.parametrize(
    ("code", "asked_epoch", "reaction"),
    [
        (error_codes.NONE, 1, Reaction.APPEND),
        (error_codes.OFFSET_OUT_OF_RANGE, 1, Reaction.ASK_RANGE),
        (error_codes.OFFSET_MOVED_TO_TIERED_STORAGE, 1, Reaction.BEGIN_IN_MIDDLE),
        (error_codes.FENCED_LEADER_EPOCH, 1, Reaction.FAIL),
        (error_codes.FENCED_LEADER_EPOCH, 0, Reaction.WAIT),
        (error_codes.UNKNOWN_LEADER_EPOCH, 1, Reaction.WAIT),
        (error_codes.NOT_LEADER_OR_FOLLOWER, 1, Reaction.WAIT),
        (error_codes.UNKNOWN_TOPIC_ID, 1, Reaction.WAIT),
        (error_codes.INCONSISTENT_TOPIC_ID, 1, Reaction.WAIT),
        (error_codes.KAFKA_STORAGE_ERROR, 1, Reaction.WAIT),
    ],
)
def test_every_error_has_the_reaction_that_kafka_has(code: int, asked_epoch: int, reaction: Reaction) -> None:
    assert reaction_to(following(), reported(code), SessionPartition(0, 0, 0, asked_epoch, 1)) is reaction


def test_a_diverging_epoch_asks_for_truncation() -> None:
    diverges = reported(error_codes.NONE)
    diverges.diverging_epoch = EpochEndOffset(epoch=0, end_offset=3)
    assert reaction_to(following(), diverges, SessionPartition(0, 0, 0, 1, 1)) is Reaction.TRUNCATE


class SessionsAgree(RuleBasedStateMachine):
    """Whatever happens on the way, after each request the leader's session holds exactly what can be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.fetcher = new_fetcher()
        self.sessions = FetchSessions(3, Random(1))
        self.now_ms = 0.0
        self.held_back: set[Any] = set()
        self.wanted: dict[Any, tuple[int, int]] | None = None
        self.served: dict[Any, tuple[int, int]] | None = None

    keys = st.tuples(st.sampled_from(TOPICS), st.integers(0, 3))

    @rule(key=keys, offset=st.integers(0, 3), epoch=st.integers(1, 3))
    def follow(self, key: Any, offset: int, epoch: int) -> None:
        self.fetcher.add(Following(key, Played(offset, epoch), None))  # type: ignore[arg-type]

    @rule(key=keys)
    def leave(self, key: Any) -> None:
        self.fetcher.remove(key)

    @rule(key=keys, to=st.sampled_from([FetchState.FAILED, FetchState.ASKING, FetchState.FETCHING, FetchState.DELAYED]))
    def change(self, key: Any, to: FetchState) -> None:
        found = self.fetcher.followings.get(key)
        if found is not None:
            if to is FetchState.FETCHING:
                self.fetcher.go_on(found)
            elif to is FetchState.DELAYED:
                self.fetcher.delay(found, self.now_ms)
            else:
                self.fetcher.stop(found, to)

    @rule(key=keys)
    def append(self, key: Any) -> None:
        found = self.fetcher.followings.get(key)
        if found is not None:
            found.follower.log.end.offset += 1  # type: ignore[misc]
            self.fetcher.moved(key)

    @rule(key=keys)
    def throttle(self, key: Any) -> None:
        self.held_back ^= {key}
        self.fetcher.moved(key)

    @rule()
    def forget_sessions(self) -> None:
        for session in list(self.sessions.sessions.values()):
            self.sessions.drop(session)

    @rule(after_ms=st.integers(0, 50), arrives=st.booleans(), comes_back=st.booleans())
    def exchange(self, after_ms: int, arrives: bool, comes_back: bool) -> None:
        self.now_ms += after_ms
        request = self.fetcher.request(self.now_ms, lambda each: each.key in self.held_back)
        self.wanted = self.served = None
        if request is None:
            assert not self.eligible()
            return
        request = codec.decode(FetchRequest, 17, codec.encode(request, 17))
        response = self.serve(request) if arrives else None
        if response is None or not comes_back:
            self.fetcher.lost()
        elif self.fetcher.answered(response) is not None:
            self.wanted = self.eligible()

    def serve(self, request: FetchRequest) -> FetchResponse:
        incremental = request.session_epoch not in FULL
        try:
            if incremental:
                session = self.sessions.resume(request, uses_ids=True, now_ms=self.now_ms)
            else:
                session = self.sessions.begin(request, uses_ids=True, is_follower=True, now_ms=self.now_ms)
        except KafkaError as error:
            return FetchResponse(throttle_time_ms=0, error_code=error.code, responses=[])
        self.served = {key: (each.fetch_offset, each.leader_epoch) for key, each in session.entries.items()}
        named = [] if incremental else [(TOPICS.index(str_id), index, 0) for str_id, index in session.entries]
        return answer(*named, session_id=session.id)

    def eligible(self) -> dict[Any, tuple[int, int]]:
        return {
            key: (each.follower.log.end.offset, each.follower.epoch)
            for key, each in self.fetcher.followings.items()
            if each.state is FetchState.FETCHING and key not in self.held_back
        }

    @invariant()
    def sessions_agree(self) -> None:
        if self.wanted is not None:
            assert self.served == self.wanted
            self.wanted = None


SessionsAgree.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSessionsAgree = SessionsAgree.TestCase
