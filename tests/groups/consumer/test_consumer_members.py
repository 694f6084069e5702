"""Members of a consumer group: how they join, share partitions, keep their places, and are removed."""

from collections.abc import Sequence
from random import Random

import pytest
from consumer_members import Member, topic
from group_world import GroupWorld, Ticket
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.consumer.regexes import ResolveRegexes
from kpybroker.machines.groups.events import GroupRequest
from kpywire import error_codes
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)

SESSION_MS = 45_000
INTERVAL_MS = 1_000


@pytest.fixture
def world() -> GroupWorld:
    made = GroupWorld()
    made.set_topics(True, topic("t", 4), topic("u", 2))
    return made


def group_of(world: GroupWorld) -> ConsumerGroup:
    membership = world.groups["g"].membership
    assert isinstance(membership, ConsumerGroup)
    return membership


def settle(world: GroupWorld, *members: Member) -> None:
    world.advance(INTERVAL_MS)
    for _ in range(4):
        for member in members:
            assert member.beat().error_code == error_codes.NONE
    assert group_of(world).state == "Stable"


def test_the_first_member_gets_everything_and_the_second_its_half(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2")
    assert one.join().member_epoch == 2
    assert one.partitions == [0, 1, 2, 3]
    two.join()
    assert two.partitions == []  # the target is computed once in an interval
    world.advance(INTERVAL_MS)
    two.beat()
    assert two.partitions == []  # the first has not given up its half
    one.beat()
    assert len(one.partitions) == 2
    one.beat()
    two.beat()
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
    settle(world, one, two)


def test_a_member_that_leaves_or_falls_silent_is_replaced(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2")
    one.join()
    two.join()
    settle(world, one, two)
    assert two.beat(member_epoch=-1).member_epoch == -1
    settle(world, one)
    assert one.partitions == [0, 1, 2, 3]
    world.advance(SESSION_MS + 1)
    assert group_of(world).state == "Empty"
    assert one.beat().error_code == error_codes.UNKNOWN_MEMBER_ID
    assert world.delete() == error_codes.NONE
    assert world.groups == {}


def test_a_member_that_does_not_give_up_its_partitions_in_time_is_removed(world: GroupWorld) -> None:
    one, two = Member(world, "1", rebalance_timeout_ms=5_000), Member(world, "2")
    one.join()
    two.join()
    world.advance(INTERVAL_MS)
    had = one.listed()
    one.beat()
    for _ in range(6):
        world.advance(900)
        if "1" in group_of(world).members:
            one.beat(topic_partitions=had)
        two.beat()
    assert list(group_of(world).members) == ["2"]


def test_epochs_fence_members_and_forgive_a_lost_answer(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2")
    one.join()
    two.join()
    world.advance(INTERVAL_MS)
    two.beat()
    before = two.epoch
    assert one.beat(member_epoch=one.epoch + 5).error_code == error_codes.FENCED_MEMBER_EPOCH
    settle(world, one, two)
    assert two.epoch > 0
    two.epoch = group_of(world).members["2"].previous_member_epoch
    assert two.beat().error_code == error_codes.NONE
    assert two.epoch >= before
    assert two.beat(member_epoch=1).error_code == error_codes.FENCED_MEMBER_EPOCH
    assert two.join().error_code == error_codes.NONE  # a fenced member begins again with epoch 0
    assert Member(world, "3").beat(member_epoch=1).error_code == error_codes.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back_to_what_it_had(world: GroupWorld) -> None:
    one, two = Member(world, "1", instance_id="i"), Member(world, "2", instance_id="j")
    one.join()
    two.join()
    settle(world, one, two)
    had, epoch = one.partitions, group_of(world).epoch
    again = Member(world, "1b", instance_id="i")
    assert again.join().error_code == error_codes.UNRELEASED_INSTANCE_ID
    one.beat(member_epoch=-2)
    again.join()
    assert again.partitions == had
    assert group_of(world).epoch == epoch
    assert one.beat().error_code == error_codes.FENCED_INSTANCE_ID


def test_a_full_group_takes_no_more(world: GroupWorld) -> None:
    world.settings = world.settings._replace(consumer_max_size=1)
    one = Member(world, "1")
    one.join()
    assert Member(world, "2").join().error_code == error_codes.GROUP_MAX_SIZE_REACHED
    assert one.beat().error_code == error_codes.NONE


def test_new_partitions_are_shared_out(world: GroupWorld) -> None:
    one = Member(world, "1")
    one.join()
    world.set_topics(False, topic("t", 6))
    settle(world, one)
    assert one.partitions == [0, 1, 2, 3, 4, 5]


def test_a_regular_expression_is_resolved_after_the_heartbeat_and_again_for_new_topics(world: GroupWorld) -> None:
    one = Member(world, "1")
    one.join(subscribed_topic_names=None, subscribed_topic_regex="t.*")
    assert one.partitions == []
    settle(world, one)
    assert list(one.owned) == [topic("t", 1).id]
    world.advance(10_001)
    world.set_topics(True, topic("t", 4), topic("u", 2), topic("t2", 1))
    settle(world, one)
    assert len(one.owned) == 2
    bad = one.beat(subscribed_topic_regex="(")
    assert bad.error_code == error_codes.INVALID_REGULAR_EXPRESSION
    assert bad.error_message == "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    one.beat(subscribed_topic_regex="")
    assert group_of(world).regexes == {}


def test_topics_that_the_sender_may_not_describe_are_left_out(world: GroupWorld) -> None:
    one = Member(world, "1")
    one.join(subscribed_topic_names=None, subscribed_topic_regex=".*")
    event = ResolveRegexes("g", [".*"], lambda names: [name for name in names if name != "t"], world.now_ms)
    world.submit(event)
    assert group_of(world).regexes[".*"].topics == {"u"}


def test_a_commit_with_an_old_epoch_is_good_for_partitions_that_the_member_kept(world: GroupWorld) -> None:
    one, two = Member(world, "1"), Member(world, "2")
    one.join()
    old = one.epoch
    two.join()
    settle(world, one, two)
    (kept, *_), gone = one.partitions, two.partitions[0]
    assert one.epoch > old
    assert world.commit({("t", kept): 7}, "1", old) == {error_codes.NONE}
    assert world.commit({("t", gone): 7}, "1", old) == {error_codes.STALE_MEMBER_EPOCH}
    assert world.commit({("t", gone): 7}, "1", one.epoch + 1) == {error_codes.STALE_MEMBER_EPOCH}
    assert world.commit({("t", kept): 7}, "1", one.epoch, version=8) == {error_codes.UNSUPPORTED_VERSION}
    assert world.commit_in_transaction(1, {("t", gone): 7}, "1", old) == {error_codes.ILLEGAL_GENERATION}
    assert world.commit({("t", 0): 7}) == {error_codes.UNKNOWN_MEMBER_ID}


def test_a_group_of_its_own_config_has_its_own_intervals(world: GroupWorld) -> None:
    own = {"consumer_heartbeat_interval_ms": 7_000, "consumer_session_timeout_ms": 50_000}
    world.settings = world.settings._replace(overrides_of=lambda group_id: own if group_id == "g" else {})
    one = Member(world, "1")
    assert one.join().heartbeat_interval_ms == 7_000
    world.advance(SESSION_MS + 1)
    assert list(group_of(world).members) == ["1"]


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(world: GroupWorld) -> None:
    world.commit({("t", 0): 3})
    (member_id,) = world.stable_group(1)
    assert Member(world, "1").join().error_code == error_codes.GROUP_ID_NOT_FOUND
    world.leave((member_id, None))
    world.advance(60_000)
    assert Member(world, "1").join().error_code == error_codes.NONE
    assert world.listed()["g"][0] == "consumer"
    assert world.fetch() == {("t", 0): 3}


def test_a_heartbeat_that_could_not_be_written_changes_nothing(world: GroupWorld) -> None:
    world.refuses_appends = True
    message = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="1",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    ticket = Ticket()
    world.submit(GroupRequest(ticket, message, 1, world.now_ms), ticket, "g")
    assert ticket.response == error_codes.KAFKA_STORAGE_ERROR
    assert world.groups == {}
    world.advance(SESSION_MS + 1)
    assert world.records == []


def check_owners(members: Sequence[Member]) -> None:
    """No partition is with two members."""
    owned = [(topic_id, index) for each in members for topic_id, indexes in each.owned.items() for index in indexes]
    assert len(owned) == len(set(owned))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_no_partition_is_with_two_members_and_silence_settles_the_group(seed: int) -> None:
    rng = Random(seed)
    world = GroupWorld(consumer_assignment_interval_ms=rng.choice((0, 1_000)))
    world.set_topics(True, topic("t", 5), topic("u", 3))
    members: list[Member] = []
    for number in range(40):
        chosen = rng.random()
        if chosen < 0.2 or not members:
            members.append(Member(world, f"m{number}"))
            members[-1].join(subscribed_topic_names=rng.choice((["t"], ["t", "u"])))
        elif chosen < 0.3:
            members.pop(rng.randrange(len(members))).beat(member_epoch=-1)
        elif chosen < 0.35:
            world.restart()
            world.finish_sweeps()
        elif chosen < 0.45:
            rng.choice(members).beat(subscribed_topic_names=rng.choice((["t"], ["u"], ["t", "u"])))
        elif chosen < 0.6:
            world.advance(rng.randrange(1_500))
        else:
            assert rng.choice(members).beat().error_code == error_codes.NONE
        check_owners(members)
        group = world.groups.get("g")
        if group is not None and isinstance(group.membership, ConsumerGroup):
            known = group.membership
            assert all(each.member_epoch <= known.epoch for each in known.members.values())
    if members:
        settle(world, *members)
        check_owners(members)
        group = group_of(world)
        read = {name for each in group.members.values() for name in each.topic_names}
        assert sum(len(each.partitions) for each in members) == sum({"t": 5, "u": 3}[name] for name in read)
        before = {name: getattr(group, name) for name in ("epoch", "members", "target", "partition_epochs", "by_name")}
        world.restart()
        after = group_of(world)
        assert before == {name: getattr(after, name) for name in before}


def test_a_target_from_a_clock_ahead_does_not_delay_members() -> None:
    """Each target has the time of the wall clock with it (found by simulation)."""
    world = GroupWorld()
    world.set_topics(True, topic("t", 2))
    ahead_ms = 60_000
    world.advance(ahead_ms)
    gone = Member(world, "gone")
    gone.join()
    gone.beat(member_epoch=-1)
    world.now_ms -= ahead_ms
    world.restart()
    one = Member(world, "one")
    one.join()
    assert one.partitions == [0, 1]
    two = Member(world, "two")
    two.join()
    assert two.partitions == [], "by this clock the last target is new"


def test_members_are_in_the_order_of_a_table_that_grows_before_it_replaces() -> None:
    """Kafka's table has four slots for five members, and eight once one of them is replaced. The order decides who
    gets what if two members are in one bucket of the assignor's table."""
    group = ConsumerGroup("g")
    client, generated = "client-e30c87e8-ddd3-47e3-b765-1e8f48f26228", "G-tj4_tKSTaDd6ndUzcDbg"
    for member_id in (client, "member-2", "member-3", generated):
        group.put(ConsumerMember(member_id))
    assert group.ordered_members() == ["member-3", generated, "member-2", client]
    group.put(ConsumerMember("GjW6y0nRStmo3rKxVMRXww"))
    group.put(ConsumerMember("member-2", member_epoch=1))
    assert group.ordered_members() == ["member-3", "member-2", client, generated, "GjW6y0nRStmo3rKxVMRXww"]
