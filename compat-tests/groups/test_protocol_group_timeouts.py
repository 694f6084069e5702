"""Members that come late, go silent or lose their connection, on a broker with short timeouts and small groups."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from conftest import started
from kpywire import error_codes
from oracle import BrokerProcess
from support.group_requests import Member, commit, coordinator_ready, describe, joining, offsets, stable_member
from support.raw_client import RawClient, connect
from support.raw_requests import create
from support.targets import TARGETS
from support.waiting import eventually

SHORT_MS = 1_000
INITIAL_DELAY_MS = 300
MAX_SIZE = 3

Another = Callable[[], RawClient]


@pytest.fixture(scope="module")
def impatient(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that allows short sessions."""
    properties = {
        "group.min.session.timeout.ms": "100",
        "group.max.size": str(MAX_SIZE),
        "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
        "offsets.topic.num.partitions": "1",
    }
    with TARGETS[startable_target](properties, directory=tmp_path_factory.mktemp("impatient")) as broker:
        started.append(broker)
        with connect(broker.bootstrap_servers) as raw:
            coordinator_ready(raw)
        yield broker
        started.remove(broker)


@pytest.fixture
def another(impatient: BrokerProcess) -> Iterator[Another]:
    with ExitStack() as connections:
        yield lambda: connections.enter_context(connect(impatient.bootstrap_servers))


@pytest.fixture
def group() -> str:
    return f"timeouts-{secrets.token_hex(4)}"


def state(raw: RawClient, group: str) -> str:
    return str(describe(raw, group).group_state)


def members(raw: RawClient, group: str) -> set[str]:
    return {each.member_id for each in describe(raw, group).members}


def test_the_first_round_waits_for_more_members(another: Another, group: str) -> None:
    together = [Member(another(), group) for _ in range(MAX_SIZE)]
    began = time.monotonic()
    for member in together:
        member.begin_join()
    answers = [member.end_join() for member in together]
    assert time.monotonic() - began >= INITIAL_DELAY_MS / 1000
    assert {answer.generation_id for answer in answers} == {1}
    assert sorted(len(answer.members) for answer in answers) == [0, 0, MAX_SIZE]


def test_a_silent_member_is_removed(another: Another, group: str) -> None:
    member = stable_member(another(), group, session_ms=SHORT_MS)
    watcher = another()
    for _ in range(4):
        time.sleep(SHORT_MS / 2000)
        assert member.heartbeat() == error_codes.NONE
    eventually(lambda: state(watcher, group) == "Empty", "the end of a session")
    assert member.heartbeat() == error_codes.UNKNOWN_MEMBER_ID
    assert member.sync().error_code == error_codes.UNKNOWN_MEMBER_ID


def test_a_commit_keeps_a_session_alive(another: Another, group: str) -> None:
    raw = another()
    create(raw, f"topic-{group}")
    member = stable_member(raw, group, session_ms=SHORT_MS)
    for offset in range(4):
        time.sleep(SHORT_MS / 2000)
        assert member.commit(f"topic-{group}", (0, offset, "")) == {0: error_codes.NONE}
    assert member.heartbeat() == error_codes.NONE


def test_a_session_that_ends_starts_a_round_for_the_others(another: Another, group: str) -> None:
    leader = stable_member(another(), group)
    silent = Member(another(), group, session_ms=SHORT_MS)
    silent.begin_join()
    eventually(lambda: leader.heartbeat() == error_codes.REBALANCE_IN_PROGRESS, "a round")
    leader.join()
    silent.end_join()
    silent.begin_sync()
    leader.sync({})
    silent.end_sync()
    eventually(lambda: leader.heartbeat() == error_codes.REBALANCE_IN_PROGRESS, "another round")
    answer = leader.join()
    assert ([each.member_id for each in answer.members], answer.generation_id) == ([leader.id], 3)


def test_a_member_that_rejoins_too_late_is_removed(another: Another, group: str) -> None:
    late = stable_member(another(), group, rebalance_ms=SHORT_MS, session_ms=30_000)
    newcomer = Member(another(), group, rebalance_ms=SHORT_MS)
    began = time.monotonic()
    answer = newcomer.join()
    assert time.monotonic() - began >= SHORT_MS / 1000
    assert [each.member_id for each in answer.members] == [newcomer.id]
    assert late.heartbeat() == error_codes.UNKNOWN_MEMBER_ID


def test_a_member_that_syncs_too_late_is_removed(another: Another, group: str) -> None:
    leader = Member(another(), group, rebalance_ms=SHORT_MS, session_ms=30_000)
    follower = Member(another(), group, rebalance_ms=SHORT_MS, session_ms=30_000)
    leader.begin_join()
    follower.begin_join()
    if leader.end_join().leader != leader.id:
        leader, follower = follower, leader
        leader.end_join()
    else:
        follower.end_join()
    follower.begin_sync()
    assert follower.end_sync().error_code == error_codes.REBALANCE_IN_PROGRESS
    assert leader.heartbeat() == error_codes.UNKNOWN_MEMBER_ID
    assert follower.join().leader == follower.id


def test_a_reserved_member_id_without_a_join_delays_a_rebalance_briefly(another: Another, group: str) -> None:
    raw = another()
    pending = raw.call(joining(group, session_ms=SHORT_MS), 9)
    assert pending.error_code == error_codes.MEMBER_ID_REQUIRED
    member = Member(another(), group, session_ms=30_000, rebalance_ms=30_000)
    assert member.join().generation_id == 1
    assert len(member.join().members) == 1
    time.sleep(2 * SHORT_MS / 1000)
    assert raw.call(joining(group, pending.member_id), 9).error_code == error_codes.UNKNOWN_MEMBER_ID


def test_a_member_that_disconnects_while_joining_delays_others_at_most_its_session_timeout(
    another: Another, group: str
) -> None:
    leader = stable_member(another(), group, session_ms=30_000, rebalance_ms=30_000)
    gone = Member(another(), group, session_ms=SHORT_MS, rebalance_ms=30_000)
    gone.begin_join()
    eventually(lambda: leader.heartbeat() == error_codes.REBALANCE_IN_PROGRESS, "a round")
    gone.raw.sock.close()
    answer = leader.join()
    assert {each.member_id for each in answer.members} == {leader.id, gone.id}
    assert leader.sync({leader.id: b"all"}).assignment == b"all"
    eventually(lambda: leader.heartbeat() == error_codes.REBALANCE_IN_PROGRESS, "the end of a session")
    assert [each.member_id for each in leader.join().members] == [leader.id]


def test_a_full_group_takes_no_member(another: Another, group: str) -> None:
    inside = [Member(another(), group, session_ms=30_000) for _ in range(MAX_SIZE)]
    for member in inside:
        member.begin_join()
    for member in inside:
        assert member.end_join().error_code == error_codes.NONE
    raw = another()
    for version in (3, 4, 9):
        answer = raw.call(joining(group, "", version), version)
        assert (answer.error_code, answer.member_id) == (error_codes.GROUP_MAX_SIZE_REACHED, "")


def test_a_static_member_keeps_its_place_for_a_session(another: Another, group: str) -> None:
    member = stable_member(another(), group, instance_id="i", session_ms=3 * SHORT_MS)
    member.raw.sock.close()
    watcher = another()
    assert members(watcher, group) == {member.id}
    reborn = Member(another(), group, "i", session_ms=3 * SHORT_MS)
    assert reborn.join().generation_id == 1
    assert reborn.sync().assignment == b"a"
    reborn.raw.sock.close()
    eventually(lambda: state(watcher, group) == "Empty", "the end of a session")


def test_groups_and_offsets_outlive_the_broker(impatient: BrokerProcess, another: Another, group: str) -> None:
    raw = another()
    topic = f"topic-{group}"
    create(raw, topic)
    member = stable_member(raw, group, instance_id="i", session_ms=20_000)
    assert member.commit(topic, (0, 42, "kept")) == {0: error_codes.NONE}
    commit(raw, group + "-simple", topic, (0, 7, ""))
    for kill in (False, True):
        impatient.restart(kill=kill)
        member.raw = another()
        coordinator_ready(member.raw, group)
        assert member.heartbeat() == error_codes.NONE
        assert state(member.raw, group) == "Stable"
        assert member.sync().assignment == b"a"
        assert offsets(member.raw, group) == {topic: {0: (42, 0, "kept", 0)}}
        assert offsets(member.raw, group + "-simple") == {topic: {0: (7, 0, "", 0)}}
        assert member.commit(topic, (0, 42, "kept")) == {0: error_codes.NONE}
        reborn = Member(another(), group, "i", session_ms=20_000)
        assert reborn.join().generation_id == 1
        assert reborn.sync().assignment == b"a"
        member = reborn
