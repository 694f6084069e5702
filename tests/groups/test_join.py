"""Members that get into a group, and the beginning of a generation."""

import pytest
from group_world import START_MS, GroupWorld, subscription

from kpybroker.machines.groups.classic.join import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBERS_KEPT
from kpywire import error_codes
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

RANGE_THEN_STICKY = {"range": b"r", "sticky": b"s"}
STICKY_THEN_RANGE = {"sticky": b"s", "range": b"r"}


def test_a_new_member_gets_its_id_first() -> None:
    world = GroupWorld()
    response = world.join().response
    assert response.error_code == error_codes.MEMBER_ID_REQUIRED
    prefix, dash, number = response.member_id[:-37], response.member_id[-37], response.member_id[-36:]
    assert (prefix, dash) == ("client", "-")
    assert [len(each) for each in number.split("-")] == [8, 4, 4, 4, 12]
    assert number[14] == "4"


@pytest.mark.parametrize("version", range(4))
def test_old_clients_are_let_in_without_a_second_request(version: int) -> None:
    world = GroupWorld()
    ticket = world.join(version=version)
    world.advance(3_000)
    assert ticket.response.generation_id == 1
    assert ticket.response.member_id.startswith("client-")


def test_a_join_of_the_first_version_rebalances_within_its_session_timeout() -> None:
    world = GroupWorld()
    world.join(version=0, session_ms=7_000)
    assert world.classic("g").rebalance_timeout_ms == 7_000


def test_a_group_is_recorded_when_somebody_comes() -> None:
    world = GroupWorld()
    world.join()
    (record,) = world.records
    value = record.value
    assert (record.key.group, record.value_version) == ("g", 3)
    assert (value.protocol_type, value.generation, value.protocol, value.leader, value.members) == (
        "",
        0,
        None,
        None,
        [],
    )
    assert value.current_state_timestamp == START_MS


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_id": ""}, error_codes.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, error_codes.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, error_codes.INVALID_SESSION_TIMEOUT),
        ({"member_id": "x"}, error_codes.UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, error_codes.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, error_codes.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_cannot_be_is_refused(options: dict[str, object], error: int) -> None:
    world = GroupWorld()
    assert world.join(**options).error == error  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_refused_join_names_no_protocol(version: int, name: str | None) -> None:
    world = GroupWorld()
    assert world.join("x", version=version).response.protocol_name == name


@pytest.mark.parametrize("options", [{"protocol_type": "connect"}, {"protocols": {"zone": b""}}])
def test_a_member_that_shares_no_protocol_with_the_others_is_refused(options: dict[str, object]) -> None:
    world = GroupWorld()
    world.stable_group(2)
    assert world.join(**options).error == error_codes.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]


def test_the_first_generation_waits_for_more_members() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=3_000)
    _, first = world.new_member()
    world.advance(2_999)
    _, second = world.new_member()
    world.advance(1)
    assert not first.is_answered
    world.advance(3_000)
    assert first.response.generation_id == second.response.generation_id == 1


def test_the_wait_for_more_members_ends_with_the_rebalance_timeout() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=3_000)
    _, first = world.new_member(rebalance_ms=7_000)
    for _ in range(6):
        world.advance(1_000)
        world.new_member(rebalance_ms=7_000)
    assert not first.is_answered
    world.advance(1_000)
    assert first.response.generation_id == 1
    assert len(world.classic("g").members) == 7


def test_without_a_delay_the_first_generation_begins_at_once() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=0)
    _, ticket = world.new_member()
    world.advance(0)
    assert ticket.response.generation_id == 1


def test_only_the_leader_gets_the_list_of_members() -> None:
    world = GroupWorld()
    members = dict(world.new_member() for _ in range(3))
    world.advance(6_000)
    leader_id = next(iter(members.values())).response.leader
    assert {each.member_id for each in members[leader_id].response.members} == set(members)
    assert all(each.metadata == subscription("t") for each in members[leader_id].response.members)
    assert not any(ticket.response.members for member_id, ticket in members.items() if member_id != leader_id)


def test_the_protocol_with_most_votes_is_taken() -> None:
    world = GroupWorld()
    tickets = [
        world.new_member(protocols=each)[1] for each in (RANGE_THEN_STICKY, STICKY_THEN_RANGE, STICKY_THEN_RANGE)
    ]
    world.advance(6_000)
    assert {ticket.response.protocol_name for ticket in tickets} == {"sticky"}


def test_only_protocols_that_all_speak_are_voted_for() -> None:
    world = GroupWorld()
    tickets = [world.new_member(protocols=each)[1] for each in (STICKY_THEN_RANGE, STICKY_THEN_RANGE, {"range": b"r"})]
    world.advance(6_000)
    assert {ticket.response.protocol_name for ticket in tickets} == {"range"}


def test_a_protocol_named_twice_by_a_member_counts_once() -> None:
    world = GroupWorld()
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=each) for each in (b"1", b"2")],
    )
    tickets = [world.send(message, 3), world.join(version=3)]
    world.advance(6_000)
    assert [each.response.protocol_name for each in tickets] == ["range", "range"]


def test_a_member_that_joins_makes_the_others_join_again() -> None:
    world = GroupWorld()
    first, second = world.stable_group(2)
    third, ticket = world.new_member()
    assert world.heartbeat(first, 1) == error_codes.REBALANCE_IN_PROGRESS
    rejoined = [world.join(first), world.join(second)]
    assert {each.response.generation_id for each in (*rejoined, ticket)} == {2}
    assert {each.response.leader for each in rejoined} == {first}
    assert third in world.classic("g").members


def test_a_follower_that_rejoins_unchanged_starts_no_rebalance() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)
    response = world.join(follower).response
    assert (response.error_code, response.generation_id, response.leader) == (error_codes.NONE, 1, leader)
    assert world.heartbeat(leader, 1) == error_codes.NONE


@pytest.mark.parametrize(("number", "protocols"), [(0, {"range": subscription("t")}), (1, {"range": b"other"})])
def test_the_leader_and_a_changed_follower_begin_a_rebalance(number: int, protocols: dict[str, bytes]) -> None:
    world = GroupWorld()
    members = world.stable_group(2)
    assert not world.join(members[number], protocols=protocols).is_answered
    assert world.heartbeat(members[1 - number], 1) == error_codes.REBALANCE_IN_PROGRESS


def test_a_join_that_is_sent_again_before_the_sync_gets_the_same_answer() -> None:
    world = GroupWorld()
    member_id, ticket = world.new_member()
    world.advance(3_000)
    assert world.join(member_id).response == ticket.response


def test_a_join_on_a_new_connection_takes_the_place_of_the_old_one() -> None:
    world = GroupWorld()
    member_id, old = world.new_member()
    new = world.join(member_id)
    assert old.error == error_codes.REBALANCE_IN_PROGRESS
    world.advance(3_000)
    assert new.response.generation_id == 1


def test_a_rebalance_ends_without_members_that_do_not_rejoin() -> None:
    world = GroupWorld()
    members = world.stable_group(3, session_ms=30_000, rebalance_ms=20_000)
    rejoined = world.join(members[0], session_ms=30_000, rebalance_ms=20_000)
    world.advance(20_000)
    assert rejoined.response.generation_id == 2
    assert [each.member_id for each in rejoined.response.members] == [members[0]]


def test_another_leads_when_the_leader_does_not_come() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2, session_ms=100_000)
    rejoined = world.join(follower, session_ms=100_000, protocols={"range": b"other"})
    world.advance(60_000)
    assert rejoined.response.leader == follower
    assert leader not in world.classic("g").members


def test_a_rebalance_waits_for_ids_that_were_given_out_until_their_session_ends() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1, session_ms=60_000)
    world.join(session_ms=10_000)
    rejoined = world.join(member_id, session_ms=60_000)
    world.advance(9_999)
    assert not rejoined.is_answered
    world.advance(1)
    assert rejoined.response.generation_id == 2


def test_an_id_that_was_not_used_in_time_is_forgotten() -> None:
    world = GroupWorld()
    member_id = world.join(session_ms=6_000).response.member_id
    world.advance(6_000)
    assert world.join(member_id).error == error_codes.UNKNOWN_MEMBER_ID
    assert len(world.coordinator.shard.timers) == 0


def test_reserved_member_ids_are_bounded() -> None:
    world = GroupWorld()
    first = world.join().response.member_id
    for _ in range(PENDING_MEMBERS_KEPT):
        last = world.join().response.member_id
    assert len(world.classic("g").pending_members) == PENDING_MEMBERS_KEPT
    assert world.join(first).error == error_codes.UNKNOWN_MEMBER_ID
    assert not world.join(last).is_answered


@pytest.mark.parametrize("longest", ["i" * 32_730, "ż" * 16_365])
def test_an_id_that_no_string_can_hold_is_not_given_out(longest: str) -> None:
    world = GroupWorld()
    assert not world.join(instance_id=longest).is_answered
    assert world.join(instance_id=longest + longest[0]).error == error_codes.UNKNOWN_SERVER_ERROR


def test_a_full_group_takes_no_further_member() -> None:
    world = GroupWorld(max_size=2)
    world.stable_group(2)
    assert world.join().error == error_codes.GROUP_MAX_SIZE_REACHED


def test_a_full_first_generation_takes_no_further_member() -> None:
    world = GroupWorld(max_size=2)
    for _ in range(2):
        world.new_member()
    assert world.join().error == error_codes.GROUP_MAX_SIZE_REACHED


def test_a_group_above_its_maximum_size_keeps_the_first_members_to_rejoin() -> None:
    world = GroupWorld()
    members = world.stable_group(3)
    world.settings = world.settings._replace(max_size=2)
    world.restart()
    world.finish_sweeps()
    rejoined = [world.join(member_id) for member_id in members]
    assert rejoined[2].error == error_codes.GROUP_MAX_SIZE_REACHED
    world.advance(60_000)
    assert [each.response.generation_id for each in rejoined[:2]] == [2, 2]


def test_a_member_that_waits_for_its_first_generation_for_too_long_is_out() -> None:
    world = GroupWorld()
    members = world.stable_group(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    _, ticket = world.new_member(session_ms=1_800_000, rebalance_ms=1_800_000)
    world.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert ticket.error == error_codes.UNKNOWN_MEMBER_ID
    assert list(world.classic("g").members) == members


def test_opaque_protocol_types_are_as_good_as_consumers() -> None:
    world = GroupWorld()
    worker, ticket = world.new_member(protocol_type="connect", protocols={"sessioned": b"\xff\x00 anything"})
    world.advance(3_000)
    response = ticket.response
    assert (response.protocol_type, response.protocol_name) == ("connect", "sessioned")
    assert response.members[0].metadata == b"\xff\x00 anything"
    assert world.sync(worker, 1, {worker: b"task"}).response.assignment == b"task"
    assert world.listed()["g"] == ("classic", "Stable", "connect")
