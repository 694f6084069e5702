"""Heartbeats, sessions that end, and members that leave."""

import pytest
from group_world import GroupWorld

from kpywire import error_codes
from kpywire.messages.leave_group import LeaveGroupRequest


def test_a_session_ends_without_heartbeats_and_the_others_join_again() -> None:
    world = GroupWorld()
    first, second = world.stable_group(2)
    world.advance(9_999)
    assert world.heartbeat(first, 1) == error_codes.NONE
    world.advance(1)
    assert world.heartbeat(second, 1) == error_codes.UNKNOWN_MEMBER_ID
    assert world.heartbeat(first, 1) == error_codes.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_session() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    for _ in range(10):
        world.advance(9_000)
        assert world.heartbeat(member_id, 1) == error_codes.NONE


def test_a_heartbeat_during_a_rebalance_renews_the_session_too() -> None:
    world = GroupWorld()
    first, second = world.stable_group(2, rebalance_ms=100_000)
    world.join(first, rebalance_ms=100_000)
    for _ in range(3):
        world.advance(9_000)
        assert world.heartbeat(second, 1) == error_codes.REBALANCE_IN_PROGRESS


def test_commits_keep_a_session() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    for offset in range(5):
        world.advance(9_000)
        assert world.commit({("t", 0): offset}, member_id, 1) == {error_codes.NONE}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_id": ""}, error_codes.INVALID_GROUP_ID),
        ({"group_id": "other"}, error_codes.UNKNOWN_MEMBER_ID),
        ({"member_id": "x"}, error_codes.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, error_codes.ILLEGAL_GENERATION),
        ({"instance_id": "i"}, error_codes.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_heartbeat_that_does_not_fit_is_refused(options: dict[str, object], error: int) -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    arguments = {"member_id": member_id, "generation_id": 1, **options}
    assert world.heartbeat(**arguments) == error  # type: ignore[arg-type]


def test_heartbeats_are_fine_while_the_leader_assigns() -> None:
    world = GroupWorld()
    member_id, _ = world.new_member()
    world.advance(3_000)
    assert world.heartbeat(member_id, 1) == error_codes.NONE


def test_the_others_join_again_when_a_member_leaves() -> None:
    world = GroupWorld()
    first, second = world.stable_group(2)
    assert world.leave((second, None)) == [error_codes.NONE]
    assert world.heartbeat(first, 1) == error_codes.REBALANCE_IN_PROGRESS
    assert world.heartbeat(second, 1) == error_codes.UNKNOWN_MEMBER_ID


def test_a_group_that_all_have_left_is_empty_and_the_log_says_so() -> None:
    world = GroupWorld()
    first, second = world.stable_group(2)
    assert world.leave((first, None), (second, None), ("x", None)) == [0, 0, error_codes.UNKNOWN_MEMBER_ID]
    value = world.records[-1].value
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 2, None, None)
    assert value.members == []
    assert world.listed()["g"] == ("classic", "Empty", "consumer")


def test_the_leadership_goes_on_to_a_member_that_stays() -> None:
    world = GroupWorld()
    leader, second, third = world.stable_group(3)
    world.leave((leader, None))
    tickets = [world.join(second), world.join(third)]
    assert {each.response.leader for each in tickets} <= {second, third}
    assert sum(bool(each.response.members) for each in tickets) == 1


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    world = GroupWorld()
    member_id, ticket = world.new_member()
    world.leave((member_id, None))
    assert ticket.error == error_codes.UNKNOWN_MEMBER_ID


def test_a_member_that_is_removed_while_it_waits_for_its_assignment_is_answered() -> None:
    world = GroupWorld()
    members = dict(world.new_member() for _ in range(2))
    world.advance(6_000)
    leader_id = next(iter(members.values())).response.leader
    (follower,) = set(members) - {leader_id}
    waiting = world.sync(follower, 1)
    world.leave((follower, None))
    assert waiting.error == error_codes.UNKNOWN_MEMBER_ID


def test_an_id_that_was_only_given_out_may_leave() -> None:
    world = GroupWorld()
    member_id = world.join().response.member_id
    assert world.leave((member_id, None)) == [error_codes.NONE]
    assert world.join(member_id).error == error_codes.UNKNOWN_MEMBER_ID


def test_a_leave_ends_the_wait_of_the_others() -> None:
    world = GroupWorld()
    first, second = world.stable_group(2)
    rejoined = world.join(first)
    world.leave((second, None))
    assert rejoined.response.generation_id == 2


@pytest.mark.parametrize("version", range(3))
def test_old_clients_hear_of_their_one_member_as_of_the_whole(version: int) -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    for error in (error_codes.NONE, error_codes.UNKNOWN_MEMBER_ID):
        response = world.send(LeaveGroupRequest(group_id="g", member_id=member_id), version).response
        assert (response.error_code, response.members) == (error, [])


def test_leaving_an_unknown_group_is_refused() -> None:
    world = GroupWorld()
    assert world.leave(("x", None), group_id="other") == [error_codes.UNKNOWN_MEMBER_ID]
    message = LeaveGroupRequest(group_id="")
    assert world.send(message, 5).error == error_codes.INVALID_GROUP_ID


def test_no_timer_is_left_of_an_empty_group() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    world.leave((member_id, None))
    world.advance(60_000)
    assert len(world.coordinator.shard.timers) == 0
    assert world.coordinator.next_deadline_ms() is None
