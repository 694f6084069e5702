"""Members at rest: the answer to a repeated heartbeat is known for as long as a decision would give it. `GroupWorld`
decides on every heartbeat all the same, and compares."""

from collections.abc import Callable
from typing import Any

import pytest
from consumer_members import Member, topic
from group_world import GroupWorld
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.groups.consumer.target import SETTLING_MS
from kpybroker.machines.groups.settings import GroupSettings
from kpywire import error_codes
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JAVA = "apache-kafka-java"
SESSION_MS = 45_000


def world_with(**settings: Any) -> GroupWorld:
    world = GroupWorld(consumer_unsettled_heartbeat_interval_ms=250, **settings)
    world.set_topics(True, topic("t", 4), topic("u", 2))
    return world


def rest(member: Member) -> Any:
    """A heartbeat that says nothing."""
    return member.beat(topic_partitions=None)


def at_rest(world: GroupWorld, *members: Member) -> None:
    for member in members:
        member.join()
    world.advance(1_000)
    for _ in range(4):
        for member in members:
            member.beat()
    world.advance(SETTLING_MS)
    for member in members:
        rest(member)


def is_known(world: GroupWorld, member: Member) -> bool:
    """Whether the answer to the next heartbeat of a member at rest is known."""
    before = world.given_again
    rest(member)
    return world.given_again > before


def test_the_answer_to_the_second_heartbeat_at_rest_is_known() -> None:
    world = world_with()
    one, two = Member(world, "1", software=JAVA), Member(world, "2")
    at_rest(world, one, two)
    assert is_known(world, one)
    assert is_known(world, two)


def test_an_answer_that_is_given_again_renews_the_session() -> None:
    world = world_with()
    member = Member(world, "1")
    at_rest(world, member)
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="1", member_epoch=member.epoch, topic_partitions=None
    )
    (kept,) = (each for each in world.sent.values() if each == message)
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        assert world.coordinator.answer_again(kept, world.now_ms) is not None
    world.advance(SESSION_MS)
    assert world.coordinator.answer_again(kept, world.now_ms) is None
    assert rest(member).error_code == error_codes.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "change",
    [
        lambda world: Member(world, "2").join(),
        lambda world: world.set_topics(True, topic("t", 5), topic("u", 2)),
        lambda world: world.restart(),
        lambda world: setattr(world, "settings", GroupSettings(consumer_heartbeat_interval_ms=6_000)),
        lambda world: setattr(world, "settings", GroupSettings(overrides_of=lambda _: {"share_max_size": 7})),
        lambda world: Member(world, "2", software=JAVA, member_epoch=0).join(subscribed_topic_names=["u"]),
    ],
    ids=["a member joins", "a topic grows", "failover", "settings", "settings of the group", "another reads"],
)
def test_the_answer_is_not_known_after_a_change(change: Callable[[GroupWorld], Any]) -> None:
    world = world_with()
    member = Member(world, "1", software=JAVA)
    at_rest(world, member)
    assert is_known(world, member)
    change(world)
    assert not is_known(world, member)


def test_the_answer_is_not_known_when_the_members_of_the_node_have_another_interval() -> None:
    members = 1
    world = GroupWorld(members_of_node=lambda: members, consumer_unsettled_heartbeat_interval_ms=250)
    world.set_topics(True, topic("t", 4))
    member = Member(world, "1", software=JAVA)
    at_rest(world, member)
    assert is_known(world, member)
    members = 800
    assert not is_known(world, member)
    assert rest(member).heartbeat_interval_ms == 4_000


def test_an_equal_message_of_another_connection_is_decided() -> None:
    world = world_with()
    member = Member(world, "1")
    at_rest(world, member)
    member.software = JAVA
    assert not is_known(world, member)


def test_a_group_with_a_regular_expression_is_always_decided() -> None:
    world = world_with()
    member = Member(world, "1", subscribed_topic_names=[], subscribed_topic_regex="t")
    at_rest(world, member)
    assert not is_known(world, member)


def test_a_heartbeat_that_lists_partitions_or_topics_is_not_kept() -> None:
    world = world_with()
    member = Member(world, "1")
    at_rest(world, member)
    for fields in ({}, {"subscribed_topic_names": ["t"], "topic_partitions": None}):
        for _ in range(3):
            member.beat(**fields)
    assert world.given_again == 0


def test_the_answer_to_a_classic_member_is_known_unless_its_group_rebalances() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=0)
    member_id, joined = world.new_member()
    world.advance(1)
    generation_id = joined.response.generation_id
    world.sync(member_id, generation_id, {member_id: b"all"})
    assert world.heartbeat(member_id, generation_id) == error_codes.NONE
    assert world.given_again == 1
    for other, generation in ((member_id, generation_id + 1), ("?", generation_id)):
        assert world.heartbeat(other, generation) != error_codes.NONE
    world.new_member()
    assert world.heartbeat(member_id, generation_id) == error_codes.REBALANCE_IN_PROGRESS
    assert world.given_again == 1


STEP = st.one_of(
    st.tuples(st.just("join"), st.sampled_from("123")),
    st.tuples(st.just("read"), st.sampled_from("123"), st.sampled_from(["t", "u"])),
    st.tuples(st.just("leave"), st.sampled_from("123")),
    st.tuples(st.just("topics"), st.integers(5, 7)),
    st.tuples(st.just("settings"), st.integers(5_000, 5_002)),
    st.tuples(st.just("wait"), st.sampled_from([100, 1_000, SETTLING_MS, SESSION_MS])),
    st.tuples(st.just("rest"), st.just(2)),
)


@settings(max_examples=50)
@given(st.lists(STEP, max_size=15), st.sampled_from(["", JAVA]))
def test_what_is_given_again_is_what_a_decision_gives_whatever_happens(
    steps: list[tuple[Any, ...]], identity: str
) -> None:
    world = world_with()
    members = {each: Member(world, each, software=identity) for each in "123"}
    for kind, *values in (*steps, ("wait", SETTLING_MS), ("rest", 2)):
        if kind == "join":
            members[values[0]].join()
        elif kind == "read":
            members[values[0]].beat(subscribed_topic_names=[values[1]])
        elif kind == "leave":
            members[values[0]].beat(member_epoch=-1, topic_partitions=None)
        elif kind == "topics":
            size = max(values[0], len(world.topics.by_name["t"].partitions))
            world.set_topics(True, topic("t", size), topic("u", 2))
        elif kind == "settings":
            world.settings = world.settings._replace(consumer_heartbeat_interval_ms=values[0])
        elif kind == "wait":
            world.advance(values[0])
        else:
            for _ in range(values[0]):
                for member in members.values():
                    rest(member)
                    member.beat()
