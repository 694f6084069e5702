"""Work that grows with the number of members only where it must, counted in calls of functions, not in time."""

from collections.abc import Callable

import pytest
from counted import calls
from group_world import GroupWorld, subscription

from kpybroker.machines.groups import coordinator
from kpybroker.machines.groups.events import GroupTimersDue

SMALL, LARGE = 100, 400
GROWTH = LARGE / SMALL
TOLERANCE = 1.2
PROTOCOLS = {"range": subscription("t"), "sticky": subscription("t")}


def joining(size: int) -> tuple[GroupWorld, list[str]]:
    """A stable group in which all but the last have joined again."""
    world = GroupWorld(initial_rebalance_delay_ms=0)
    ids = world.stable_group(size, protocols=PROTOCOLS, session_ms=1_800_000)
    for member_id in ids[:-1]:
        world.join(member_id, protocols=PROTOCOLS, session_ms=1_800_000)
    return world, ids


def test_the_last_join_takes_work_in_proportion_to_the_members() -> None:
    work = {}
    for size in (SMALL, LARGE):
        world, ids = joining(size)
        work[size] = calls(lambda: world.join(ids[-1], protocols=PROTOCOLS, session_ms=1_800_000))  # noqa: B023
        assert sum(each.response.generation_id == 2 for each in world.tickets[-size:]) == size
    assert work[LARGE] < work[SMALL] * GROWTH * TOLERANCE


def test_the_assignment_takes_work_in_proportion_to_the_members() -> None:
    work = {}
    for size in (SMALL, LARGE):
        world, ids = joining(size)
        leader = world.join(ids[-1], protocols=PROTOCOLS, session_ms=1_800_000).response.leader
        waiting = [world.sync(each, 2) for each in ids if each != leader]
        plan = dict.fromkeys(ids, b"a")
        work[size] = calls(lambda: world.sync(leader, 2, plan))  # noqa: B023
        assert all(each.response.assignment == b"a" for each in waiting)
    assert work[LARGE] < work[SMALL] * GROWTH * TOLERANCE


@pytest.mark.parametrize("request_of", ["heartbeat", "commit", "join", "id", "fetch"])
def test_a_heartbeat_costs_the_same_in_any_group(request_of: str) -> None:
    work = {}
    for size in (SMALL, LARGE):
        world, ids = joining(size)
        last = ids[-1]
        asked: dict[str, Callable[[], object]] = {
            "heartbeat": lambda: world.heartbeat(last, 1),  # noqa: B023
            "commit": lambda: world.commit({("t", 0): 1}, last, 1),  # noqa: B023
            "join": lambda: world.join(ids[0], protocols=PROTOCOLS, session_ms=1_800_000),  # noqa: B023
            "id": lambda: world.join(protocols=PROTOCOLS),  # noqa: B023
            "fetch": lambda: world.fetch({"t": [0]}),  # noqa: B023
        }
        asked[request_of]()
        work[size] = calls(asked[request_of])
    assert work[LARGE] <= work[SMALL] * TOLERANCE


def test_sessions_of_many_members_that_end_together_are_not_one_decision() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=0)
    for number in range(20):
        world.stable_group(3, group_id=f"g{number}")
    before = len(world.records)
    world.commits_at_once = False
    world.advance(10_000)
    assert len(world.records) == before + 20
    assert world.journal.waiting_gates == 20


def test_joins_of_many_groups_that_end_together_are_not_one_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "REPLIES_AT_ONCE", 10)
    world = GroupWorld(initial_rebalance_delay_ms=0)
    tickets = [world.new_member(group_id=f"g{number}")[1] for number in range(25)]
    answered = []
    while not tickets[-1].is_answered:
        assert world.coordinator.next_deadline_ms() == world.now_ms
        world.submit(GroupTimersDue(world.now_ms))
        answered.append(sum(each.is_answered for each in tickets))
    assert answered == [10, 20, 25]
