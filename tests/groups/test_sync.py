"""Assignments: from the leader, through the log, to those who wait."""

import pytest
from group_world import START_MS, GroupWorld

from kpywire import error_codes


def generation(world: GroupWorld, size: int, **options: object) -> list[str]:
    """Members of a first generation that did not sync yet, the leader first."""
    members = [world.new_member(**options) for _ in range(size)]
    while not members[0][1].is_answered:
        world.advance(3_000)
    leader_id = members[0][1].response.leader
    return sorted((member_id for member_id, _ in members), key=lambda each: each != leader_id)


def test_followers_wait_for_the_leader() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    waiting = world.sync(follower, 1)
    assert not waiting.is_answered
    assert world.sync(leader, 1, {leader: b"a", follower: b"b"}).response.assignment == b"a"
    assert waiting.response.assignment == b"b"
    assert waiting.response.protocol_type == "consumer"
    assert waiting.response.protocol_name == "range"


def test_a_follower_that_comes_later_gets_its_assignment_at_once() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    world.sync(leader, 1, {leader: b"a", follower: b"b"})
    assert world.sync(follower, 1).response.assignment == b"b"


def test_members_that_the_leader_forgets_are_assigned_nothing() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    waiting = world.sync(follower, 1)
    world.sync(leader, 1, {leader: b"a", "stranger": b"x"})
    assert (waiting.error, waiting.response.assignment) == (error_codes.NONE, b"")


def test_the_assignment_is_written_before_anybody_hears_of_it() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    waiting = world.sync(follower, 1)
    world.commits_at_once = False
    answered = world.sync(leader, 1, {leader: b"a", follower: b"b"})
    assert not waiting.is_answered
    assert not answered.is_answered
    value = world.records[-1].value
    assert {each.member_id: each.assignment for each in value.members} == {leader: b"a", follower: b"b"}
    world.commit_log()
    assert waiting.response.assignment == b"b"


def test_a_record_says_all_about_a_generation() -> None:
    world = GroupWorld()
    (leader,) = generation(world, 1)
    world.now_ms += 500
    world.sync(leader, 1, {leader: b"a"})
    record = world.records[-1]
    value = record.value
    (member,) = value.members
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 1, "range", leader)
    assert value.current_state_timestamp == START_MS + 3_000
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout) == (10_000, 60_000)
    assert record.value_version == 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_id": ""}, error_codes.INVALID_GROUP_ID),
        ({"group_id": "other"}, error_codes.UNKNOWN_MEMBER_ID),
        ({"member_id": "x"}, error_codes.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, error_codes.ILLEGAL_GENERATION),
        ({"instance_id": "i"}, error_codes.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, error_codes.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, error_codes.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(options: dict[str, object], error: int) -> None:
    world = GroupWorld()
    leader, _ = generation(world, 2)
    arguments = {"member_id": leader, "generation_id": 1, **options}
    assert world.sync(**arguments).error == error  # type: ignore[arg-type]


def test_a_sync_during_a_rebalance_gets_rebalance_in_progress() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    waiting = world.sync(follower, 1)
    world.new_member()
    assert waiting.error == error_codes.REBALANCE_IN_PROGRESS
    assert world.sync(leader, 1).error == error_codes.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_in_time_are_out() -> None:
    world = GroupWorld()
    leader, silent = generation(world, 2, session_ms=100_000, rebalance_ms=20_000)
    world.sync(leader, 1, {})
    world.advance(19_999)
    assert world.heartbeat(silent, 1) == error_codes.NONE
    world.advance(1)
    assert world.heartbeat(silent, 1) == error_codes.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1) == error_codes.REBALANCE_IN_PROGRESS


def test_a_leader_that_does_not_assign_in_time_is_out_and_the_others_join_again() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2, session_ms=100_000, rebalance_ms=20_000)
    waiting = world.sync(follower, 1)
    world.advance(20_000)
    assert waiting.error == error_codes.REBALANCE_IN_PROGRESS
    rejoined = world.join(follower, session_ms=100_000, rebalance_ms=20_000)
    assert (rejoined.response.generation_id, rejoined.response.leader) == (2, follower)
    assert leader not in world.classic("g").members


def test_no_member_is_removed_when_all_have_synced() -> None:
    world = GroupWorld()
    members = world.stable_group(2, session_ms=100_000, rebalance_ms=20_000)
    world.advance(20_000)
    assert [world.heartbeat(each, 1) for each in members] == [error_codes.NONE, error_codes.NONE]


def test_a_member_that_waits_for_its_assignment_needs_no_heartbeat() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2, session_ms=10_000)
    waiting = world.sync(follower, 1)
    for _ in range(5):
        world.advance(9_000)
        assert world.heartbeat(leader, 1) == error_codes.NONE
    assert not waiting.is_answered
    world.sync(leader, 1, {follower: b"b"})
    assert waiting.response.assignment == b"b"


def test_a_sync_on_a_new_connection_takes_the_place_of_the_old_one() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    old, new = world.sync(follower, 1), world.sync(follower, 1)
    assert old.error == error_codes.REBALANCE_IN_PROGRESS
    world.sync(leader, 1, {follower: b"b"})
    assert new.response.assignment == b"b"


def test_an_assignment_that_is_too_large_fails_everybody_and_the_group_starts_over() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    waiting = world.sync(follower, 1)
    world.largest_batch = 1_000
    assert world.sync(leader, 1, {leader: b"x" * 1_000}).error == error_codes.UNKNOWN_SERVER_ERROR
    assert waiting.error == error_codes.UNKNOWN_SERVER_ERROR
    assert world.describe().group_state == "PreparingRebalance"


def test_a_failed_write_of_an_assignment_is_answered_to_all_members() -> None:
    world = GroupWorld()
    leader, follower = generation(world, 2)
    waiting = world.sync(follower, 1)
    world.refuses_appends = True
    assert world.sync(leader, 1, {leader: b"a"}).response == error_codes.KAFKA_STORAGE_ERROR
    assert waiting.response == error_codes.KAFKA_STORAGE_ERROR
    world.refuses_appends = False
    waiting = world.sync(follower, 1)
    assert world.sync(leader, 1, {leader: b"a", follower: b"b"}).response.assignment == b"a"
    assert waiting.response.assignment == b"b"
