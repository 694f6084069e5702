"""Static members (KIP-345): a restart that nobody notices, and only one process for an instance id."""

from group_world import GroupWorld, subscription

from kpywire import error_codes


def static_group(world: GroupWorld, *instances: str, **options: object) -> dict[str, str]:
    """A stable group of static members: member ids by instance id, the leader first."""
    tickets = {instance: world.join(instance_id=instance, **options) for instance in instances}  # type: ignore[arg-type]
    while not all(ticket.is_answered for ticket in tickets.values()):
        world.advance(3_000)
    ids = {instance: ticket.response.member_id for instance, ticket in tickets.items()}
    leader_id = tickets[instances[0]].response.leader
    for instance, member_id in sorted(ids.items(), key=lambda each: each[1] == leader_id):
        world.sync(member_id, 1, {each: each.encode() for each in ids.values()}, instance_id=instance)
    return dict(sorted(ids.items(), key=lambda each: each[1] != leader_id))


def test_a_static_member_joins_in_one_step() -> None:
    world = GroupWorld()
    ticket = world.join(instance_id="i")
    world.advance(3_000)
    assert ticket.response.error_code == error_codes.NONE
    assert ticket.response.member_id.startswith("i-")
    assert ticket.response.members[0].group_instance_id == "i"


def test_a_restarted_static_follower_keeps_its_assignment_without_a_rebalance() -> None:
    world = GroupWorld()
    ids = static_group(world, "i", "j")
    leader, follower = list(ids)
    response = world.join(instance_id=follower).response
    assert (response.generation_id, response.skip_assignment, response.members) == (1, False, [])
    assert response.member_id != ids[follower]
    assert world.heartbeat(ids[leader], 1, instance_id=leader) == error_codes.NONE
    assert world.sync(response.member_id, 1, instance_id=follower).response.assignment == ids[follower].encode()


def test_the_new_id_of_a_restarted_member_is_in_the_log() -> None:
    world = GroupWorld()
    ids = static_group(world, "i", "j")
    _, follower = list(ids)
    new_id = world.join(instance_id=follower).response.member_id
    assert {each.member_id for each in world.records[-1].value.members} == {*ids.values(), new_id} - {ids[follower]}
    world.restart()
    world.finish_sweeps()
    assert world.heartbeat(new_id, 1, instance_id=follower) == error_codes.NONE


def test_a_restarted_static_leader_gets_skip_assignment() -> None:
    world = GroupWorld()
    ids = static_group(world, "i", "j")
    leader, _ = list(ids)
    response = world.join(instance_id=leader).response
    assert response.skip_assignment
    assert response.leader == response.member_id
    assert {each.group_instance_id for each in response.members} == {"i", "j"}


def test_a_restarted_leader_that_cannot_skip_the_assignment_is_shown_the_old_leader() -> None:
    world = GroupWorld()
    ids = static_group(world, "i", "j")
    leader, _ = list(ids)
    response = world.join(instance_id=leader, version=8).response
    assert (response.leader, response.members, response.skip_assignment) == (ids[leader], [], False)


def test_the_old_process_of_an_instance_is_fenced() -> None:
    world = GroupWorld()
    ids = static_group(world, "i", "j")
    _, follower = list(ids)
    world.join(instance_id=follower)
    assert world.heartbeat(ids[follower], 1, instance_id=follower) == error_codes.FENCED_INSTANCE_ID
    assert world.sync(ids[follower], 1, instance_id=follower).error == error_codes.FENCED_INSTANCE_ID
    assert world.join(ids[follower], instance_id=follower).error == error_codes.FENCED_INSTANCE_ID
    assert world.leave((ids[follower], follower)) == [error_codes.FENCED_INSTANCE_ID]
    commit = world.commit({("t", 0): 1}, ids[follower], 1, instance_id=follower)
    assert commit == {error_codes.FENCED_INSTANCE_ID}


def test_the_old_process_hears_of_it_also_while_it_waits() -> None:
    world = GroupWorld()
    old = world.join(instance_id="i")
    new = world.join(instance_id="i")
    assert old.error == error_codes.FENCED_INSTANCE_ID
    world.advance(6_000)
    assert len(new.response.members) == 1


def test_a_restart_that_changes_the_protocol_makes_everybody_join() -> None:
    world = GroupWorld()
    both = {"range": subscription("t"), "sticky": subscription("t")}
    ids = static_group(world, "i", "j", protocols=both)
    leader, follower = list(ids)
    only_sticky = {"sticky": subscription("t")}
    assert world.classic("g").protocol_name == "range"
    assert not world.join(instance_id=follower, protocols=only_sticky).is_answered
    assert world.heartbeat(ids[leader], 1, instance_id=leader) == error_codes.REBALANCE_IN_PROGRESS


def test_a_restart_before_the_assignment_makes_everybody_join() -> None:
    world = GroupWorld()
    tickets = [world.join(instance_id=each) for each in ("i", "j")]
    world.advance(6_000)
    waiting = world.sync(tickets[1].response.member_id, 1, instance_id="j")
    world.join(instance_id="i")
    assert waiting.error == error_codes.REBALANCE_IN_PROGRESS


def test_a_restart_before_its_sync_is_waited_for_under_the_new_id() -> None:
    world = GroupWorld()
    tickets = {each: world.join(instance_id=each) for each in ("i", "j")}
    world.advance(6_000)
    leader_id = tickets["i"].response.leader
    leader = next(each for each, ticket in tickets.items() if ticket.response.member_id == leader_id)
    (follower,) = {"i", "j"} - {leader}
    world.sync(leader_id, 1, {}, instance_id=leader)
    new_id = world.join(instance_id=follower).response.member_id
    assert world.sync(new_id, 1, instance_id=follower).error == error_codes.NONE
    assert world.classic("g").pending_sync == set()


def test_a_static_member_stays_when_it_does_not_rejoin_until_its_session_ends() -> None:
    world = GroupWorld()
    ids = static_group(world, "i", "j", session_ms=100_000, rebalance_ms=20_000)
    leader, follower = list(ids)
    rejoined = world.join(ids[leader], instance_id=leader, session_ms=100_000, rebalance_ms=20_000)
    world.advance(20_000)
    assert {each.group_instance_id for each in rejoined.response.members} == {leader, follower}


def test_a_rebalance_to_which_no_static_member_comes_goes_on() -> None:
    world = GroupWorld()
    static_group(world, "i", session_ms=100_000, rebalance_ms=20_000)
    member_id, _ = world.new_member(session_ms=100_000, rebalance_ms=20_000)
    assert world.leave((member_id, None)) == [error_codes.NONE]
    world.advance(20_000)
    assert world.describe().group_state == "PreparingRebalance"


def test_an_admin_removes_a_static_member_by_its_instance_id() -> None:
    world = GroupWorld()
    static_group(world, "i", "j")
    assert world.leave(("", "i"), ("", "nobody")) == [error_codes.NONE, error_codes.UNKNOWN_MEMBER_ID]
    assert world.describe().group_state == "PreparingRebalance"


def test_an_empty_instance_id_is_an_instance_id() -> None:
    world = GroupWorld()
    static_group(world, "")
    assert world.leave(("", None)) == [error_codes.UNKNOWN_MEMBER_ID]
    assert world.leave(("", "")) == [error_codes.NONE]
    assert world.classic("g").static_members == {}
