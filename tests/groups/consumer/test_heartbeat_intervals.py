"""The interval between heartbeats is short while a group moves its partitions, and Kafka's when it rests."""

from typing import Any

import consumer_members
import pytest
from consumer_members import topic
from group_world import GroupWorld

from kpybroker.groups.consumer.heartbeat import MS_OF_A_MEMBER
from kpybroker.groups.consumer.target import SETTLING_MS

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
    assert [member.beat().heartbeat_interval_ms for member in members] == [USUAL_MS] * len(members)


def test_members_ask_often_until_all_have_their_partitions_and_for_a_while_after(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2")
    assert one.join().heartbeat_interval_ms == SHORT_MS
    world.advance(SETTLING_MS)
    assert one.beat().heartbeat_interval_ms == USUAL_MS
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
    assert one.beat().heartbeat_interval_ms == USUAL_MS
    back = Member(world, "3", instance_id="i")
    assert back.join().heartbeat_interval_ms == USUAL_MS
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


def test_it_can_be_switched_off() -> None:
    assert Member(world_with(consumer_unsettled_heartbeat_interval_ms=0), "1").join().heartbeat_interval_ms == USUAL_MS


@pytest.mark.parametrize("software", ["librdkafka", "kgo", "unknown"])
def test_members_of_other_libraries_beat_as_on_kafka(world: GroupWorld, software: str) -> None:
    one, two = Member(world, "1"), Member(world, "2", software=software)
    one.join()
    assert two.join().heartbeat_interval_ms == USUAL_MS
    assert one.beat().heartbeat_interval_ms == SHORT_MS
