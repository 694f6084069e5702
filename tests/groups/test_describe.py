"""The answers of DescribeGroups and ListGroups."""

import pytest
from group_world import GroupWorld, subscription

from kpywire import error_codes


def test_a_stable_group_is_shown_with_what_its_members_read_and_have() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    described = world.describe()
    (member,) = described.members
    assert (described.error_code, described.group_state) == (error_codes.NONE, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), member_id.encode())


def test_a_group_that_rebalances_is_shown_without_what_its_members_read() -> None:
    world = GroupWorld()
    world.stable_group(1)
    world.new_member()
    described = world.describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert {each.member_metadata for each in described.members} == {b""}


@pytest.mark.parametrize("version", range(6))
def test_a_group_that_is_not_there_is_dead(version: int) -> None:
    described = GroupWorld().describe(version=version)
    assert (described.error_code, described.error_message) == (error_codes.NONE, None)
    assert (described.group_state, described.members) == ("Dead", [])


def test_new_clients_hear_that_a_group_is_not_there() -> None:
    described = GroupWorld().describe(version=6)
    assert described.error_code == error_codes.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group g not found."
    assert described.group_state == "Dead"


def test_states_follow_a_group_through_its_life() -> None:
    world = GroupWorld()
    states = []
    member_id, _ = world.new_member()
    states.append(world.describe().group_state)
    world.advance(3_000)
    states.append(world.describe().group_state)
    world.sync(member_id, 1, {})
    states.append(world.describe().group_state)
    world.leave((member_id, None))
    states.append(world.describe().group_state)
    assert states == ["PreparingRebalance", "CompletingRebalance", "Stable", "Empty"]


def test_groups_are_listed_by_state_and_type_in_any_case() -> None:
    world = GroupWorld()
    world.stable_group(1)
    world.commit({("t", 0): 1}, group_id="by hand")
    stable, by_hand = ("classic", "Stable", "consumer"), ("classic", "Empty", "")
    assert world.listed() == {"g": stable, "by hand": by_hand}
    assert world.listed(states=["sTaBlE"]) == {"g": stable}
    assert world.listed(states=["empty", "dead"]) == {"by hand": by_hand}
    assert world.listed(types=["CLASSIC"]) == {"g": stable, "by hand": by_hand}
    assert world.listed(types=["consumer"]) == {}


def test_groups_are_listed_after_a_restart_before_anybody_asked_for_them() -> None:
    world = GroupWorld()
    world.stable_group(1)
    world.restart()
    assert world.listed() == {"g": ("classic", "Stable", "consumer")}
