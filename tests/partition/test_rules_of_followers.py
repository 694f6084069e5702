"""The facts about a follower that a leader goes by: who may join, who is caught up, which requests are of its epoch."""

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from test_leader_in_sync import open_leader
from test_transactional_leader import new_leader

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.in_sync import FetchClock, FollowerState, Rules
from kpybroker.machines.partition.verification import Verifications
from kpystorage.errors import InvalidTxnState
from kpystorage.log_offset import LogOffset
from kpywire import error_codes


def broker(epoch: int, *, fenced: bool = False, is_active: bool | None = None, works: bool = True) -> Any:
    active = not fenced if is_active is None else is_active
    return SimpleNamespace(epoch=epoch, fenced=fenced, is_active=active, can_use=lambda _directory: works)


@pytest.mark.parametrize(
    ("known", "epoch", "may_join"),
    [
        (broker(12), 12, True),
        (broker(12), 11, False),
        (broker(12), 13, False),
        (broker(12), -1, True),
        (broker(12), None, False),
        (broker(-1), 12, True),
        (broker(-1), None, False),
        (broker(12, fenced=True), 12, False),
        (broker(12, is_active=False), 12, False),
        (None, 12, False),
    ],
)
def test_the_registered_process_of_an_active_broker_may_join(known: Any, epoch: int | None, *, may_join: bool) -> None:
    rules = Rules(0, {} if known is None else {2: known})
    assert rules.may_join(2, epoch) is may_join


@pytest.mark.parametrize(
    ("known", "epoch", "is_earlier"),
    [
        (broker(12), 11, True),
        (broker(12), 12, False),
        (broker(12), 13, False),
        (broker(12), -1, False),
        (broker(12, fenced=True), 11, False),
        (None, 11, False),
        (broker(0), -1, False),
        (broker(1), 0, True),
    ],
)
def test_a_process_is_of_an_earlier_life_if_its_broker_has_registered_again(
    known: Any, epoch: int, *, is_earlier: bool
) -> None:
    rules = Rules(0, {} if known is None else {2: known})
    assert rules.is_of_an_earlier_life(2, epoch) is is_earlier


@pytest.mark.parametrize(
    ("known", "directory", "can_use"),
    [
        (broker(1), None, True),
        (broker(1), b"d", True),
        (broker(1, works=False), b"d", False),
        (broker(1, works=False), None, True),
        (None, b"d", True),
    ],
)
def test_a_directory_can_be_used_unless_its_broker_says_otherwise(
    known: Any, directory: bytes | None, *, can_use: bool
) -> None:
    assert Rules(0, {} if known is None else {2: known}).can_use(2, directory) is can_use


def test_a_broker_is_alive_while_it_is_registered_and_not_fenced() -> None:
    rules = Rules(0, {1: broker(1), 2: broker(1, fenced=True), 3: broker(1, is_active=False)})
    assert [rules.is_alive(broker_id) for broker_id in (1, 2, 3, 4)] == [True, False, True, False]


def fetched(follower: FollowerState, end: int, leader_end: int, now_ms: float, clock: FetchClock | None = None) -> None:
    follower.note_fetch(LogOffset(end), 0, 7, leader_end, now_ms, clock)


def test_a_follower_is_caught_up_at_the_end_or_for_as_long_as_it_may_lag() -> None:
    follower = FollowerState(2)
    assert (follower.caught_up_ms, follower.fetched_ms, follower.broker_epoch) == (-inf, -inf, None)
    fetched(follower, 5, 5, 100)
    assert (follower.caught_up_ms, follower.fetched_ms, follower.broker_epoch) == (100, 100, 7)
    assert follower.is_caught_up(5, 10_000, 50)
    assert follower.is_caught_up(6, 150, 50)
    assert not follower.is_caught_up(6, 151, 50)


def test_a_follower_that_reaches_the_previous_log_end_was_caught_up_at_that_time() -> None:
    follower = FollowerState(2)
    fetched(follower, 0, 5, 100)
    assert follower.caught_up_ms == -inf
    fetched(follower, 4, 9, 200)
    assert follower.caught_up_ms == -inf
    fetched(follower, 9, 12, 300)
    assert follower.caught_up_ms == 200
    fetched(follower, 11, 12, 400)
    assert follower.caught_up_ms == 200
    fetched(follower, 12, 12, 500)
    assert follower.caught_up_ms == 500
    fetched(follower, 12, 12, 450)
    assert follower.caught_up_ms == 500, "it does not go back"


def test_session_time_counts_for_a_follower_at_the_end_until_it_leaves() -> None:
    follower, clock, other = FollowerState(2), FetchClock(), FetchClock()
    fetched(follower, 5, 5, 100, clock)
    clock.ms = 900
    assert (follower.caught_up_ms, follower.fetched_ms) == (900, 900)
    follower.leave_session(other)
    follower.leave_session(None)
    clock.ms = 950
    assert (follower.caught_up_ms, follower.fetched_ms) == (950, 950)
    follower.leave_session(clock)
    clock.ms = 2_000
    assert (follower.caught_up_ms, follower.fetched_ms) == (950, 950)
    fetched(follower, 5, 6, 3_000, clock)
    clock.ms = 4_000
    assert follower.fetched_ms == 3_000, "one that is behind has none"


@pytest.mark.parametrize(("in_sync", "since_ms"), [(True, 700), (False, -inf)])
def test_with_a_new_epoch_those_in_sync_have_their_time_again(since_ms: float, *, in_sync: bool) -> None:
    follower, clock = FollowerState(2), FetchClock()
    fetched(follower, 5, 5, 100, clock)
    follower.begin_epoch(9, 700, in_sync=in_sync)
    clock.ms = 5_000
    assert (follower.caught_up_ms, follower.fetched_ms) == (since_ms, since_ms)
    assert follower.leader_end_at_fetch == 9


# Requests of an epoch, and reads of a range


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (0, None),
        (1, error_codes.UNKNOWN_LEADER_EPOCH),
        (-2, error_codes.FENCED_LEADER_EPOCH),
    ],
)
def test_a_request_of_another_leader_epoch_is_refused(epoch: int, code: int | None) -> None:
    leader = open_leader(Rules(1_000))
    if code is None:
        leader.check_epoch(epoch)
        return
    with pytest.raises(KafkaError) as refused:
        leader.check_epoch(epoch)
    assert refused.value.code == code


@pytest.mark.parametrize(("offset", "is_refused"), [(-1, True), (0, False), (1, True)])
def test_an_empty_log_is_read_at_its_end_alone(offset: int, *, is_refused: bool) -> None:
    with new_leader() as leader:
        if is_refused:
            with pytest.raises(KafkaError) as refused:
                leader.read(offset, 100, leader.end_for(0), min_one_batch=True)
            assert refused.value.code == error_codes.OFFSET_OUT_OF_RANGE
            assert f"offset {offset} for partition t-0" in str(refused.value.message)
        else:
            assert leader.read(offset, 100, leader.end_for(0), min_one_batch=True) is None


# Verifications


def test_a_verification_is_that_of_the_newest_epoch_and_the_lowest_sequence() -> None:
    asked = Verifications()
    first = asked.begin(9, 1, 5, 100, bumps_epoch=False)
    assert asked.begin(9, 1, 3, 200, bumps_epoch=True) is first
    assert (first.lowest_sequence, first.began_ms, first.bumps_epoch, first.verified) == (3, 100, False, False)
    assert asked.begin(9, 1, 4, 200, bumps_epoch=False).lowest_sequence == 3
    assert asked.begin(9, 0, 1, 200, bumps_epoch=False) is first, "an earlier epoch changes nothing"
    assert first.lowest_sequence == 3
    first.verified = True
    asked.require(9)
    later = asked.begin(9, 2, 0, 300, bumps_epoch=True)
    assert (later.epoch, later.lowest_sequence, later.bumps_epoch, later.began_ms) == (2, 0, True, 300)
    for producer_id in (9, 8):
        with pytest.raises(InvalidTxnState):
            asked.require(producer_id)
    asked.end(9)
    asked.end(9)
    assert asked.of_producers == {}
