"""A coordinator that is loaded from the log goes on where the last one was."""

import pytest
from group_world import GroupWorld

from kpybroker.machines.groups import coordinator
from kpywire import error_codes


def test_members_go_on_after_a_restart() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)
    world.restart()
    assert world.heartbeat(leader, 1) == error_codes.NONE
    assert world.commit({("t", 0): 1}, follower, 1) == {error_codes.NONE}
    assert world.sync(follower, 1).response.assignment == follower.encode()
    assert world.describe().group_state == "Stable"


def test_sessions_restart_with_the_load_even_in_unused_groups() -> None:
    world = GroupWorld()
    world.stable_group(2)
    world.advance(9_000)
    world.restart()
    world.advance(9_999)
    assert len(world.describe().members) == 2
    world.advance(2)
    assert world.describe().group_state == "Empty"
    assert world.records[-1].value.members == []


def test_a_rebalance_that_was_not_over_is_begun_again_by_its_members() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)
    waiting = world.join(leader)
    world.restart()
    assert waiting.response == error_codes.NOT_COORDINATOR
    assert world.heartbeat(follower, 1) == error_codes.NONE
    rejoined = [world.join(leader), world.join(follower)]
    assert {each.response.generation_id for each in rejoined} == {2}


def test_an_empty_group_that_was_loaded_has_the_facts_of_its_record() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    world.leave((member_id, None))
    before = world.groups["g"].membership.facts()
    world.restart()
    assert world.groups["g"].membership.facts() == before
    assert (before.state, before.protocol_type, before.generation) == ("Empty", "consumer", 2)


def test_generations_go_on_after_an_empty_group_was_loaded() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    world.leave((member_id, None))
    world.restart()
    _, ticket = world.new_member()
    world.advance(3_000)
    assert ticket.response.generation_id == 3


def test_many_groups_are_woken_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "WORK_AT_ONCE", 1_000)
    world = GroupWorld()
    for number in range(600):
        world.stable_group(1, group_id=f"g{number}", session_ms=1_800_000)
    world.restart()
    sweep = world.coordinator.shard.sweeps.waiting[0]
    lengths = []
    while sweep.keys:
        world.advance(1)
        lengths.append(len(sweep.keys))
    assert lengths == [100, 0]


def test_a_deleted_group_leaves_nothing_after_a_restart() -> None:
    world = GroupWorld()
    world.commit({("t", 0): 1})
    world.delete()
    world.restart()
    assert world.groups == {}
    assert world.listed() == {}
