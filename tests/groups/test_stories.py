"""The story of a group: who joined, who was late, who was silent, in the order in which it happened."""

import pytest
from group_world import REBALANCE_MS, SESSION_MS, GroupWorld

from kpybroker.groups import stories
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def told(world: GroupWorld, group_id: str = "g") -> list[str]:
    return [event.what for event in world.coordinator.shard.stories.of(group_id)]


def test_members_that_join_and_leave_are_told_with_their_generations(world: GroupWorld) -> None:
    members = world.stable_group(2)
    assert told(world)[-1] == stories.GENERATION
    assert told(world).count(stories.JOINED) == 2
    world.leave((members[1], None))
    assert told(world)[-2:] == [stories.LEFT, stories.REBALANCE]
    (left,) = [each for each in world.coordinator.shard.stories.of("g") if each.what == stories.LEFT]
    assert (left.member_id, left.client_id, left.client_host) == (members[1], "client", "/127.0.0.1")
    world.join(members[0])
    last = world.coordinator.shard.stories.of("g")[-1]
    assert (last.what, last.detail) == (stories.GENERATION, "2, members: 1")


def test_a_member_without_heartbeats_is_told_as_silent(world: GroupWorld) -> None:
    world.stable_group(1)
    world.advance(SESSION_MS + 1)
    assert stories.SILENT in told(world)


def test_a_member_that_does_not_rejoin_is_told_as_late(world: GroupWorld) -> None:
    members = world.stable_group(2)
    world.join(members[0], protocols={"range": b"changed"})
    for _ in range(REBALANCE_MS // 1000 + 1):
        world.heartbeat(members[1], 1)
        world.advance(1000)
    story = world.coordinator.shard.stories.of("g")
    assert stories.REJOINED in told(world)
    assert [each.member_id for each in story if each.what == stories.LATE_JOIN] == [members[1]]


def test_members_of_the_consumer_protocol_are_told_too(world: GroupWorld) -> None:
    def beat(epoch: int, member_id: str = "m") -> None:
        message = ConsumerGroupHeartbeatRequest(
            group_id="new",
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=["t"] if epoch == 0 else None,
            topic_partitions=[] if epoch == 0 else None,
        )
        world.send(message, 1)

    beat(0)
    beat(0, "other")
    assert told(world, "new") == [stories.JOINED, stories.JOINED]
    beat(-1)
    assert told(world, "new")[-1] == stories.LEFT
    world.advance(10 * 60_000)
    assert told(world, "new")[-1] == stories.SILENT


def test_a_restart_forgets_the_story_and_nothing_else(world: GroupWorld) -> None:
    world.stable_group(2)
    world.restart()
    assert told(world) == []
    assert world.describe().group_state == "Stable"
