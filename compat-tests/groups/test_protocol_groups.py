"""The classic group protocol, request by request: who joins, waits, is fenced, and what others see of it."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kpywire import error_codes
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.leave_group import LeaveGroupRequest
from kpywire.messages.list_groups import ListGroupsRequest
from support.group_requests import (
    RANGE,
    Member,
    Protocol,
    coordinator_ready,
    delete_groups,
    describe,
    joining,
    leave,
    listed,
    stable_member,
    syncing,
)
from support.raw_client import RawClient, connect
from support.waiting import becomes

GROUP_OPERATIONS = 0b110101001000
GROUP_OPERATIONS_OF_ZOOKEEPER_MODE = 0b101001000
"""Groups have no configs there."""
NOT_ASKED = -(2**31)

Another = Callable[[], RawClient]


@pytest.fixture
def group(raw: RawClient) -> str:
    """A group that nobody has used, whose coordinator is ready."""
    name = f"group-{secrets.token_hex(4)}"
    coordinator_ready(raw, name)
    return name


@pytest.fixture
def another(bootstrap_servers: str) -> Iterator[Another]:
    """Connections, one more with each call."""
    with ExitStack() as connections:
        yield lambda: connections.enter_context(connect(bootstrap_servers))


def pair(another: Another, group: str) -> tuple[Member, Member]:
    """A leader and a follower of a stable group, in generation 2."""
    leader = stable_member(another(), group)
    follower = Member(another(), group)
    follower.begin_join()
    becomes(leader.heartbeat, error_codes.REBALANCE_IN_PROGRESS)
    assert leader.join().error_code == error_codes.NONE
    assert follower.end_join().error_code == error_codes.NONE
    follower.begin_sync()
    assert leader.sync({leader.id: b"l", follower.id: b"f"}).assignment == b"l"
    assert follower.end_sync().assignment == b"f"
    return leader, follower


# A member alone, in every version


@pytest.mark.parametrize(
    ("join", "sync", "heartbeat", "leaving"),
    [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3), (4, 4, 4, 4), (5, 5, 4, 5), (6, 5, 3, 5), (7, 5, 4, 4),
     (8, 5, 4, 5), (9, 5, 4, 5)],
)  # fmt: skip
def test_a_member_joins_syncs_lives_and_leaves(
    raw: RawClient, group: str, join: int, sync: int, heartbeat: int, leaving: int
) -> None:
    first = raw.call(joining(group, "", join), join)
    if join >= 4:
        assert (first.error_code, first.generation_id) == (error_codes.MEMBER_ID_REQUIRED, -1)
        assert (first.leader, first.members, first.protocol_type) == ("", [], None)
        assert first.protocol_name == (None if join >= 7 else "")
        first = raw.call(joining(group, first.member_id, join), join)
    member_id = first.member_id
    assert member_id.startswith("raw-")
    assert (first.error_code, first.generation_id, first.leader) == (error_codes.NONE, 1, member_id)
    assert (first.protocol_name, first.protocol_type) == ("range", "consumer" if join >= 7 else None)
    assert [(each.member_id, each.metadata, each.group_instance_id) for each in first.members] == [
        (member_id, b"r", None)
    ]
    assert not first.skip_assignment

    synced = raw.call(syncing(group, member_id, 1, {member_id: b"mine"}, sync), sync)
    assert (synced.error_code, synced.assignment) == (error_codes.NONE, b"mine")
    named = (synced.protocol_type, synced.protocol_name)
    assert named == (("consumer", "range") if sync >= 5 else (None, None))

    alive = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)
    assert raw.call(alive, heartbeat).error_code == error_codes.NONE

    if leaving < 3:
        assert raw.call(LeaveGroupRequest(group_id=group, member_id=member_id), leaving).error_code == error_codes.NONE
    else:
        answer = leave(raw, group, (member_id, None), version=leaving)
        assert answer.error_code == error_codes.NONE
        (left,) = answer.members
        assert (left.member_id, left.group_instance_id, left.error_code) == (member_id, None, error_codes.NONE)
    assert raw.call(alive, heartbeat).error_code == error_codes.UNKNOWN_MEMBER_ID
    assert describe(raw, group).group_state == "Empty"


@pytest.mark.parametrize(
    ("protocol_type", "name", "metadata"),
    [
        pytest.param("connect", "sessioned", bytes(range(256)), id="connect"),
        # As registries of schemas elect the one who writes.
        pytest.param("sr", "v0", b'{"version":1,"host":"a","port":8081,"master_eligibility":true}', id="registry"),
    ],
)
def test_member_metadata_is_opaque_to_the_coordinator(
    raw: RawClient, group: str, protocol_type: str, name: str, metadata: bytes
) -> None:
    member = Member(raw, group, protocol_type=protocol_type, protocols=[Protocol(name, metadata)])
    joined = member.join()
    assert (joined.protocol_type, joined.protocol_name) == (protocol_type, name)
    assert joined.members[0].metadata == metadata
    assignment = secrets.token_bytes(5_000)
    assert member.sync({member.id: assignment}, protocol=(protocol_type, name)).assignment == assignment
    described = describe(raw, group)
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", protocol_type, name)
    assert described.members[0].member_assignment == assignment


# Several


def test_followers_wait_for_the_leader_and_only_the_leader_gets_the_members(another: Another, group: str) -> None:
    leader = stable_member(another(), group)
    followers = [Member(another(), group, protocols=[Protocol("range", b"f%d" % number)]) for number in range(3)]
    for follower in followers:
        follower.begin_join()
    watcher = another()
    assert describe(watcher, group).group_state == "PreparingRebalance"
    assert leader.heartbeat() == error_codes.REBALANCE_IN_PROGRESS
    answer = leader.join()
    assert (answer.leader, answer.generation_id) == (leader.id, 2)
    answers = [follower.end_join() for follower in followers]
    assert {each.member_id: each.metadata for each in answer.members} == {
        leader.id: b"r", **{each.id: b"f%d" % number for number, each in enumerate(followers)}
    }  # fmt: skip
    for each in answers:
        assert (each.error_code, each.leader, each.generation_id, each.members) == (0, leader.id, 2, [])
        assert each.protocol_name == "range"

    described = describe(watcher, group)
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "CompletingRebalance", "consumer", ""
    )  # fmt: skip
    assert {each.member_id for each in described.members} == {each.member_id for each in answer.members}
    assert {each.member_metadata for each in described.members} == {b""}
    assert {each.member_id: each.member_assignment for each in described.members}[leader.id] == b"a"

    followers[0].begin_sync()
    followers[1].begin_sync()
    assert leader.heartbeat() == error_codes.NONE
    assert leader.sync({leader.id: b"0", followers[0].id: b"1"}).assignment == b"0"
    assert followers[0].end_sync().assignment == b"1"
    assert followers[1].end_sync().assignment == b""
    assert followers[2].sync().assignment == b""
    assert describe(watcher, group).group_state == "Stable"


def test_the_protocol_that_most_members_prefer_is_taken(another: Another, group: str) -> None:
    first, second = Protocol("first", b"1"), Protocol("second", b"2")
    members = [stable_member(another(), group, protocols=[first, second])]
    for offered in ([second, Protocol("third"), first], [second, first]):
        member = Member(another(), group, protocols=offered)
        member.begin_join()
        members.append(member)
    becomes(lambda: describe(members[0].raw, group).group_state, "PreparingRebalance")
    members[0].begin_join()
    answers = [member.end_join() for member in members]
    assert [answer.protocol_name for answer in answers] == ["second"] * 3
    leaders = [answer for answer in answers if answer.members]
    assert [each.metadata for each in leaders[0].members].count(b"2") == 3


def test_a_follower_that_rejoins_unchanged_starts_no_rebalance(another: Another, group: str) -> None:
    leader, follower = pair(another, group)
    answer = follower.join()
    assert (answer.error_code, answer.generation_id, answer.leader, answer.members) == (0, 2, leader.id, [])
    assert leader.heartbeat() == error_codes.NONE
    assert follower.sync().assignment == b"f"


def test_a_follower_with_news_and_a_leader_start_a_round(another: Another, group: str) -> None:
    leader, follower = pair(another, group)
    follower.begin_join(protocols=[Protocol("range", b"news")])
    becomes(leader.heartbeat, error_codes.REBALANCE_IN_PROGRESS)
    answer = leader.join()
    assert {each.metadata for each in answer.members} == {b"r", b"news"}
    assert follower.end_join().generation_id == answer.generation_id == 3
    follower.begin_sync()
    leader.sync()
    assert follower.end_sync().assignment == b""
    leader.begin_join()
    becomes(follower.heartbeat, error_codes.REBALANCE_IN_PROGRESS)
    assert follower.join(protocols=[Protocol("range", b"news")]).generation_id == leader.end_join().generation_id == 4


def test_a_member_that_leaves_hands_over(another: Another, group: str) -> None:
    leader, follower = pair(another, group)
    assert leader.leave() == error_codes.NONE
    assert follower.heartbeat() == error_codes.REBALANCE_IN_PROGRESS
    answer = follower.join()
    assert (answer.leader, answer.generation_id, len(answer.members)) == (follower.id, 3, 1)
    assert leader.heartbeat() == error_codes.UNKNOWN_MEMBER_ID
    assert leader.leave() == error_codes.UNKNOWN_MEMBER_ID


def test_a_join_while_the_round_completes_starts_another(another: Another, group: str) -> None:
    leader, follower = pair(another, group)
    leader.begin_join()
    becomes(follower.heartbeat, error_codes.REBALANCE_IN_PROGRESS)
    follower.join()
    leader.end_join()
    follower.begin_sync()
    newcomer = Member(another(), group)
    newcomer.begin_join()
    assert follower.end_sync().error_code == error_codes.REBALANCE_IN_PROGRESS
    assert leader.sync({}).error_code == error_codes.REBALANCE_IN_PROGRESS
    leader.begin_join()
    follower.begin_join()
    generations = {member.end_join().generation_id for member in (leader, follower, newcomer)}
    assert generations == {4}


# Errors


@pytest.mark.parametrize("version", range(10))
def test_a_join_that_cannot_be_is_refused(raw: RawClient, group: str, version: int) -> None:
    def code(**options: object) -> int:
        answer = raw.call(joining(version=version, **{"group": group, "member_id": "", **options}), version)  # type: ignore[arg-type]
        assert answer.protocol_name == (None if version >= 7 else "")
        assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
        assert answer.member_id == options.get("member_id", "")
        return int(answer.error_code)

    assert code(group="") == error_codes.INVALID_GROUP_ID
    assert code(group="", member_id="m") == error_codes.INVALID_GROUP_ID
    assert code(session_ms=1) == error_codes.INVALID_SESSION_TIMEOUT
    assert code(session_ms=1_800_001, member_id="m") == error_codes.INVALID_SESSION_TIMEOUT
    assert code(member_id="nobody") == error_codes.UNKNOWN_MEMBER_ID
    assert code(protocols=[]) == error_codes.INCONSISTENT_GROUP_PROTOCOL
    assert code(protocol_type="") == error_codes.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_has_one_type_and_its_members_share_a_protocol(another: Another, group: str) -> None:
    stable_member(another(), group, protocols=[Protocol("a"), Protocol("b")])
    stranger = another()
    for options in ({"protocol_type": "connect"}, {"protocols": [RANGE]}):
        answer = stranger.call(joining(group, **options), 9)
        assert answer.error_code == error_codes.INCONSISTENT_GROUP_PROTOCOL
    stable_member(raw := another(), group + "-", protocols=[Protocol("a")])
    answer = raw.call(joining(group + "-", "nobody", 9, protocols=[Protocol("a")]), 9)
    assert answer.error_code == error_codes.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_a_sync_that_cannot_be_is_refused(another: Another, group: str, version: int) -> None:
    member = Member(another(), group)
    member.join()

    def code(version: int = version, **changed: object) -> int:
        options = {"group": group, "member_id": member.id, "generation": 1, **changed}
        answer = member.raw.call(syncing(version=version, **options), version)  # type: ignore[arg-type]
        assert (answer.assignment, answer.protocol_name, answer.protocol_type) == (b"", None, None)
        return int(answer.error_code)

    assert code(group="") == error_codes.INVALID_GROUP_ID
    assert code(group="nobody-" + group) == error_codes.UNKNOWN_MEMBER_ID
    assert code(member_id="nobody") == error_codes.UNKNOWN_MEMBER_ID
    assert code(generation=2) == error_codes.ILLEGAL_GENERATION
    assert code(generation=0) == error_codes.ILLEGAL_GENERATION
    if version >= 3:
        assert code(instance_id="i") == error_codes.UNKNOWN_MEMBER_ID
    if version >= 5:
        for protocol in (("connect", "range"), ("consumer", "other"), (None, "range"), ("consumer", None)):
            assert code(protocol=protocol) == error_codes.INCONSISTENT_GROUP_PROTOCOL
        assert code(group="", protocol=(None, None)) == error_codes.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_of_somebody_else_is_refused(raw: RawClient, group: str, version: int) -> None:
    member = stable_member(raw, group)
    asked = {
        ("", 1, member.id): error_codes.INVALID_GROUP_ID,
        ("nobody-" + group, 1, member.id): error_codes.UNKNOWN_MEMBER_ID,
        (group, 1, "nobody"): error_codes.UNKNOWN_MEMBER_ID,
        (group, 1, ""): error_codes.UNKNOWN_MEMBER_ID,
        (group, 2, member.id): error_codes.ILLEGAL_GENERATION,
        (group, 0, member.id): error_codes.ILLEGAL_GENERATION,
        (group, 1, member.id): error_codes.NONE,
    }
    for (name, generation, member_id), code in asked.items():
        request = HeartbeatRequest(group_id=name, generation_id=generation, member_id=member_id)
        assert raw.call(request, version).error_code == code


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_member_cannot_leave(raw: RawClient, group: str, version: int) -> None:
    stable_member(raw, group)
    if version < 3:
        for name, code in (("", 24), (group, 25), ("nobody-" + group, 25)):
            answer = raw.call(LeaveGroupRequest(group_id=name, member_id="nobody"), version)
            assert (answer.error_code, answer.members) == (code, [])
        return
    assert leave(raw, "", ("nobody", None), version=version).error_code == error_codes.INVALID_GROUP_ID
    for name in (group, "nobody-" + group):
        answer = leave(raw, name, ("nobody", None), ("", "instance"), ("both", "instance"), version=version)
        assert answer.error_code == error_codes.NONE
        assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == [
            ("nobody", None, 25), ("", "instance", 25), ("both", "instance", 25)
        ]  # fmt: skip
        assert leave(raw, name, version=version).members == []


# Static members (KIP-345)


def test_a_static_member_comes_back_without_a_round(another: Another, group: str) -> None:
    leader = stable_member(another(), group, instance_id="one")
    assert leader.id.startswith("one-")
    follower = Member(another(), group, instance_id="two")
    follower.begin_join()
    becomes(leader.heartbeat, error_codes.REBALANCE_IN_PROGRESS)
    leader.join()
    follower.end_join()
    follower.begin_sync()
    leader.sync({leader.id: b"l", follower.id: b"f"})
    assert follower.end_sync().assignment == b"f"

    reborn = Member(another(), group, instance_id="two")
    answer = reborn.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, leader.id)
    assert reborn.id.startswith("two-")
    assert reborn.id != follower.id
    assert reborn.sync().assignment == b"f"
    assert leader.heartbeat() == error_codes.NONE
    assert follower.heartbeat() == error_codes.FENCED_INSTANCE_ID
    assert follower.sync().error_code == error_codes.FENCED_INSTANCE_ID
    assert follower.join().error_code == error_codes.FENCED_INSTANCE_ID
    assert follower.leave() == error_codes.FENCED_INSTANCE_ID
    follower.instance_id = None
    assert follower.heartbeat() == error_codes.UNKNOWN_MEMBER_ID

    old_leader = leader.id
    leader = Member(another(), group, instance_id="one")
    answer = leader.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, leader.id)
    assert answer.skip_assignment
    assert {each.group_instance_id for each in answer.members} == {"one", "two"}
    assert old_leader not in {each.member_id for each in answer.members}
    assert leader.sync().assignment == b"l"
    described = {each.group_instance_id: each for each in describe(leader.raw, group).members}
    assert described["one"].member_id == leader.id
    assert described["two"].member_assignment == b"f"


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_a_static_leader_that_rejoins_with_an_older_version_gets_the_former_leader_id(
    another: Another, group: str, version: int
) -> None:
    before = stable_member(another(), group, instance_id="one")
    again = Member(another(), group, instance_id="one")
    answer = again.join(version)
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert answer.leader == before.id
    assert answer.members == []


def test_a_static_member_leaves_by_its_instance_id(another: Another, group: str) -> None:
    member = stable_member(another(), group, instance_id="one")
    admin = another()
    for identity, code in (
        ((member.id, "other"), error_codes.UNKNOWN_MEMBER_ID),
        (("nobody", "one"), error_codes.FENCED_INSTANCE_ID),
        (("", "one"), error_codes.NONE),
        (("", "one"), error_codes.UNKNOWN_MEMBER_ID),
    ):
        (answer,) = leave(admin, group, identity, reason="maintenance").members
        assert (answer.error_code, answer.member_id, answer.group_instance_id) == (code, *identity)
    assert describe(admin, group).group_state == "Empty"


def test_a_static_member_with_news_starts_a_round(another: Another, group: str) -> None:
    leader = stable_member(another(), group, instance_id="one")
    reborn = Member(another(), group, instance_id="one", protocols=[Protocol("other", b"o"), RANGE])
    answer = reborn.join()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 2, "other")
    assert [each.metadata for each in answer.members] == [b"o"]
    assert leader.heartbeat() == error_codes.FENCED_INSTANCE_ID


# What others see


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(raw: RawClient, group: str, version: int, in_zookeeper_mode: bool) -> None:
    operations = GROUP_OPERATIONS_OF_ZOOKEEPER_MODE if in_zookeeper_mode else GROUP_OPERATIONS
    member = stable_member(raw, group, b"assigned", instance_id="i")
    request = DescribeGroupsRequest(groups=[group, "nobody-" + group, group])
    if version >= 3:
        request.include_authorized_operations = True
    answers = raw.call(request, version).groups
    assert sorted(each.group_id for each in answers) == sorted(request.groups)
    for answer in answers:
        if answer.group_id == group:
            assert (answer.error_code, answer.group_state, answer.protocol_type, answer.protocol_data) == (
                0, "Stable", "consumer", "range"
            )  # fmt: skip
            (seen,) = answer.members
            assert (seen.member_id, seen.client_id, seen.client_host) == (member.id, "raw", "/127.0.0.1")
            assert seen.group_instance_id == ("i" if version >= 4 else None)
            assert (seen.member_metadata, seen.member_assignment) == (b"r", b"assigned")
            assert answer.authorized_operations == (operations if version >= 3 else NOT_ASKED)
        else:
            assert (answer.group_state, answer.protocol_type, answer.protocol_data) == ("Dead", "", "")
            assert answer.members == []
            if version < 6:
                assert (answer.error_code, answer.error_message) == (error_codes.NONE, None)
            else:
                assert answer.error_code == error_codes.GROUP_ID_NOT_FOUND
                assert answer.error_message == f"Group nobody-{group} not found."


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(raw: RawClient, group: str, version: int) -> None:
    member = stable_member(raw, group)

    def found(version: int = version) -> list[tuple[str, str, str]]:
        return [
            (each.protocol_type, each.group_state, each.group_type)
            for each in listed(raw, version)
            if each.group_id == group
        ]

    state, kind = ("Stable" if version >= 4 else ""), ("classic" if version >= 5 else "")
    assert found() == [("consumer", state, kind)]
    member.leave()
    assert found() == [("consumer", state and "Empty", kind)]


def test_lists_of_groups_are_filtered(raw: RawClient, another: Another, group: str) -> None:
    stable = stable_member(another(), group)
    empty = stable_member(raw, group + "-empty")
    empty.leave()
    mine = {stable.group, empty.group}

    def names(**filters: list[str]) -> set[str]:
        return {each.group_id for each in listed(raw, 5, **filters)} & mine

    assert names() == mine
    assert names(states=["Stable"]) == names(states=["sTABLE"]) == {group}
    assert names(states=["Empty", "Dead"]) == {empty.group}
    assert names(states=["Stable", "Empty"], types=["classic"]) == names(types=["CLASSIC"]) == mine
    assert names(types=["consumer"]) == names(states=["PreparingRebalance"]) == set()
    assert raw.call(ListGroupsRequest(states_filter=["bogus"], types_filter=["x"]), 5).groups == []


@pytest.mark.parametrize("version", range(3))
def test_an_empty_group_is_deleted(raw: RawClient, group: str, version: int) -> None:
    member = stable_member(raw, group)
    unknown = "nobody-" + group
    assert delete_groups(raw, unknown, group, unknown, version=version) == {
        unknown: error_codes.GROUP_ID_NOT_FOUND, group: error_codes.NON_EMPTY_GROUP
    }  # fmt: skip
    assert member.heartbeat() == error_codes.NONE
    member.leave()
    assert delete_groups(raw, group, version=version) == {group: error_codes.NONE}
    assert delete_groups(raw, group, version=version) == {group: error_codes.GROUP_ID_NOT_FOUND}
    assert describe(raw, group).group_state == "Dead"
    assert group not in {each.group_id for each in listed(raw)}
    assert stable_member(raw, group).generation == 1
