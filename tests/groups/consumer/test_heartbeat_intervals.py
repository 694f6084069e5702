"""The interval between heartbeats is short while a group moves its partitions. At rest it depends on the members of the
node."""

import heapq
from typing import Any

import consumer_members
import pytest
from consumer_members import topic
from group_world import GroupWorld
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.groups.beats import AT_REST_MS, MOST_AT_REST, at_rest_ms
from kpybroker.machines.groups.consumer.heartbeat import MS_OF_A_MEMBER
from kpybroker.machines.groups.consumer.target import SETTLING_MS
from kpybroker.machines.groups.share.events import StatesInitialized
from kpywire import error_codes
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

SHORT_MS, USUAL_MS = 250, 5_000
JAVA = "apache-kafka-java"


class Member(consumer_members.Member):
    """A member of a library that may beat often."""

    def __init__(self, world: GroupWorld, member_id: str, *, software: str = JAVA, **fields: Any) -> None:
        super().__init__(world, member_id, software=software, **fields)


@pytest.fixture
def world() -> GroupWorld:
    return world_with(consumer_unsettled_heartbeat_interval_ms=SHORT_MS)


def world_with(**settings: int) -> GroupWorld:
    made = GroupWorld(**settings)
    made.set_topics(True, topic("t", 4), topic("u", 2))
    return made


def at_rest(world: GroupWorld, *members: Member) -> None:
    world.advance(1_000)
    for _ in range(4):
        for member in members:
            member.beat()
    world.advance(SETTLING_MS)
    assert [member.beat().heartbeat_interval_ms for member in members] == [AT_REST_MS] * len(members)


def test_members_ask_often_until_all_have_their_partitions_and_for_a_while_after(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2")
    assert one.join().heartbeat_interval_ms == SHORT_MS
    world.advance(SETTLING_MS)
    assert one.beat().heartbeat_interval_ms == AT_REST_MS
    assert two.join().heartbeat_interval_ms == SHORT_MS
    world.advance(2 * SETTLING_MS)
    assert one.beat(topic_partitions=None).heartbeat_interval_ms == SHORT_MS  # it has to give up its half
    assert two.beat().heartbeat_interval_ms == SHORT_MS
    at_rest(world, one, two)
    two.beat(member_epoch=-1)
    assert one.beat().heartbeat_interval_ms == SHORT_MS


def test_a_static_member_that_is_away_is_not_waited_for(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2", instance_id="i")
    one.join()
    two.join()
    at_rest(world, one, two)
    two.beat(member_epoch=-2)
    assert one.beat().heartbeat_interval_ms == AT_REST_MS
    back = Member(world, "3", instance_id="i")
    assert back.join().heartbeat_interval_ms == AT_REST_MS
    assert len(back.partitions) == 2


def test_the_topics_of_a_new_regular_expression_are_heard_of_soon(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2", subscribed_topic_names=[], subscribed_topic_regex="u")
    one.join()
    at_rest(world, one)
    assert two.join().heartbeat_interval_ms == SHORT_MS
    world.advance(1_000)
    two.beat()
    assert len(two.partitions) == 2


def test_a_large_group_asks_less_often(world: GroupWorld) -> None:
    members = [Member(world, f"{number}") for number in range(1_000)]
    intervals = [member.join().heartbeat_interval_ms for member in members]
    assert (intervals[0], intervals[-1]) == (SHORT_MS, MS_OF_A_MEMBER * 999)
    assert (
        Member(world_with(consumer_unsettled_heartbeat_interval_ms=9_000), "1").join().heartbeat_interval_ms == USUAL_MS
    )


@pytest.mark.parametrize(("groups", "size"), [(1, 1_000), (100, 4), (1, 20)])
def test_members_at_rest_are_a_bounded_load_however_many_groups_they_form(
    world: GroupWorld, groups: int, size: int
) -> None:
    members = [Member(world, f"{number}", group_id=f"g{number % groups}") for number in range(groups * size)]
    due = [(world.now_ms + member.join().heartbeat_interval_ms, number) for number, member in enumerate(members)]
    beats_until(world, members, due, world.now_ms + 3 * SETTLING_MS)
    seconds = 10
    beats = beats_until(world, members, due, world.now_ms + seconds * 1_000)
    at_most = min(MOST_AT_REST, len(members)) * seconds
    assert at_most - len(members) <= beats <= at_most + len(members)


def beats_until(world: GroupWorld, members: list[Member], due: list[tuple[int, int]], until_ms: int) -> int:
    """Let members beat when their time has come, and count the heartbeats."""
    heapq.heapify(due)
    beats = 0
    while due[0][0] < until_ms:
        at_ms, number = due[0]
        world.advance(at_ms - world.now_ms)
        heapq.heapreplace(due, (at_ms + members[number].beat().heartbeat_interval_ms, number))
        beats += 1
    world.advance(until_ms - world.now_ms)
    return beats


def test_the_members_of_all_coordinators_of_a_node_count() -> None:
    worlds: list[GroupWorld] = []

    def members_of_node() -> int:
        return sum(world.coordinator.members() for world in worlds)

    for number in range(2):
        world = GroupWorld(consumer_unsettled_heartbeat_interval_ms=SHORT_MS, members_of_node=members_of_node)
        world.set_topics(True, topic("t", 4))
        worlds.append(world)
        for member in range(150):
            Member(world, f"{member}", group_id=f"{number}-{member}").join()
    one = Member(worlds[0], "0", group_id="0-0")
    one.join()
    worlds[0].advance(SETTLING_MS)
    assert one.beat().heartbeat_interval_ms == 300 * 1_000 // MOST_AT_REST
    for member in range(1, 150):
        Member(worlds[0], f"{member}", group_id=f"0-{member}").beat(member_epoch=-1)
    assert one.beat().heartbeat_interval_ms == AT_REST_MS


@given(st.integers(1, 60_000), st.integers(0, 10_000), st.integers(0, 100_000))
def test_the_interval_at_rest_is_never_above_the_configured_one(usual_ms: int, short_ms: int, members: int) -> None:
    interval_ms = at_rest_ms(usual_ms, short_ms, members)
    assert 0 < interval_ms <= usual_ms
    assert interval_ms == usual_ms or (short_ms and interval_ms >= max(AT_REST_MS, short_ms))
    assert members * 1_000 <= max(interval_ms, usual_ms, 1) * MOST_AT_REST or interval_ms == usual_ms
    assert interval_ms <= at_rest_ms(usual_ms, short_ms, members + 1)


def test_the_interval_of_a_group_counts_if_it_is_shorter() -> None:
    world = world_with(consumer_unsettled_heartbeat_interval_ms=SHORT_MS, consumer_heartbeat_interval_ms=700)
    one = Member(world, "1")
    one.join()
    world.advance(SETTLING_MS)
    assert one.beat().heartbeat_interval_ms == 700


def share_heartbeat(world: GroupWorld, software: str, **fields: Any) -> ShareGroupHeartbeatResponse:
    """A heartbeat of the only member of a share group, whose states are initialised at once."""
    message = ShareGroupHeartbeatRequest(group_id="s", member_id="1", **fields)
    answer = world.send(message, 1, software=software).response
    if answer.start_offsets:
        partitions = {topic_id: list(offsets) for topic_id, offsets in answer.start_offsets.items()}
        notified = world.send(StatesInitialized("s", partitions, error_codes.NONE), 1).response
        assert notified == error_codes.NONE
    response = answer.response
    assert isinstance(response, ShareGroupHeartbeatResponse)
    assert response.error_code == error_codes.NONE
    return response


@pytest.mark.parametrize(
    ("software", "short_ms", "at_rest"),
    [(JAVA, SHORT_MS, AT_REST_MS), ("librdkafka", SHORT_MS, USUAL_MS), (JAVA, 0, USUAL_MS)],
)
def test_a_member_of_a_share_group_at_rest_beats_often_as_well(software: str, short_ms: int, at_rest: int) -> None:
    world = world_with(share_unsettled_heartbeat_interval_ms=short_ms)
    first = share_heartbeat(world, software, member_epoch=0, subscribed_topic_names=["t"])
    assert first.heartbeat_interval_ms == (short_ms or USUAL_MS)
    epoch = first.member_epoch
    for _ in range(3):
        world.advance(1_000)
        answer = share_heartbeat(world, software, member_epoch=epoch, subscribed_topic_names=None)
        epoch = answer.member_epoch
    assert answer.heartbeat_interval_ms == at_rest


def test_only_the_answer_to_a_member_of_a_share_group_that_says_nothing_is_given_again() -> None:
    """A heartbeat that names topics is answered with the assignment, which the next one need not have."""
    world = world_with()
    epoch = share_heartbeat(world, JAVA, member_epoch=0, subscribed_topic_names=["t"]).member_epoch
    for _ in range(3):
        world.advance(1_000)
        epoch = share_heartbeat(world, JAVA, member_epoch=epoch, subscribed_topic_names=None).member_epoch
    for topics, again in ((["t"], 0), (["t"], 0), (None, 1), (None, 2)):
        if topics and not again:
            world.given_again = 0
        answer = share_heartbeat(world, JAVA, member_epoch=epoch, subscribed_topic_names=topics)
        assert (answer.assignment is None) == (topics is None)
        assert world.given_again == again


def test_the_dynamic_heartbeat_interval_can_be_switched_off() -> None:
    world = world_with(consumer_unsettled_heartbeat_interval_ms=0)
    one = Member(world, "1")
    assert one.join().heartbeat_interval_ms == USUAL_MS
    world.advance(SETTLING_MS)
    assert one.beat().heartbeat_interval_ms == USUAL_MS


@pytest.mark.parametrize("software", ["librdkafka", "kgo", "unknown"])
def test_members_of_other_libraries_beat_as_on_kafka(world: GroupWorld, software: str) -> None:
    one, two = Member(world, "1"), Member(world, "2", software=software)
    one.join()
    assert two.join().heartbeat_interval_ms == USUAL_MS
    assert one.beat().heartbeat_interval_ms == SHORT_MS
    world.advance(1_000)
    for member in (one, two, one, two):
        member.beat()
    world.advance(SETTLING_MS)
    assert two.beat().heartbeat_interval_ms == USUAL_MS
    assert one.beat().heartbeat_interval_ms == AT_REST_MS
