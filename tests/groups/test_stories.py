"""The story of a group: who joined, who was late, who was silent, in the order in which it happened."""

import pytest
from group_world import REBALANCE_MS, SESSION_MS, GroupWorld

from kpybroker.machines.groups import stories
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kpywire.messages.streams_group_heartbeat import Topology
from support.share_group_requests import sharing
from support.streams_requests import source_of, streaming


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def story_lines(world: GroupWorld, group_id: str = "g") -> list[str]:
    return [event.what for event in world.coordinator.shard.stories.of(group_id)]


def test_a_story_has_joining_and_leaving_members_with_generations(world: GroupWorld) -> None:
    members = world.stable_group(2)
    assert story_lines(world)[-1] == stories.GENERATION
    assert story_lines(world).count(stories.JOINED) == 2
    world.leave((members[1], None))
    assert story_lines(world)[-2:] == [stories.LEFT, stories.REBALANCE]
    (left,) = [each for each in world.coordinator.shard.stories.of("g") if each.what == stories.LEFT]
    assert (left.member_id, left.client_id, left.client_host) == (members[1], "client", "/127.0.0.1")
    world.join(members[0])
    last = world.coordinator.shard.stories.of("g")[-1]
    assert (last.what, last.detail) == (stories.GENERATION, "2, members: 1")


def test_a_story_calls_a_member_without_heartbeats_silent(world: GroupWorld) -> None:
    world.stable_group(1)
    world.advance(SESSION_MS + 1)
    assert stories.SILENT in story_lines(world)


def test_a_story_calls_a_member_that_does_not_rejoin_late(world: GroupWorld) -> None:
    members = world.stable_group(2)
    world.join(members[0], protocols={"range": b"changed"})
    for _ in range(REBALANCE_MS // 1000 + 1):
        world.heartbeat(members[1], 1)
        world.advance(1000)
    story = world.coordinator.shard.stories.of("g")
    assert stories.REJOINED in story_lines(world)
    assert [each.member_id for each in story if each.what == stories.LATE_JOIN] == [members[1]]


def test_a_story_has_members_of_the_consumer_protocol(world: GroupWorld) -> None:
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
    assert story_lines(world, "new") == [stories.JOINED, stories.ASSIGNED, stories.JOINED]
    assert world.coordinator.shard.stories.of("new")[1].detail == "2, members: 1"
    beat(7)
    assert story_lines(world, "new")[-1] == stories.FENCED
    beat(-1)
    assert story_lines(world, "new")[-1] == stories.LEFT
    world.advance(10 * 60_000)
    assert story_lines(world, "new")[-1] == stories.SILENT


def test_a_story_has_members_of_share_groups(world: GroupWorld) -> None:
    world.send(sharing("shared", "m", 0, ["t"]), 1)
    world.send(sharing("shared", "other", 0, ["t"]), 1)
    assert story_lines(world, "shared") == [stories.JOINED, stories.ASSIGNED, stories.JOINED]
    world.send(sharing("shared", "m", 0, ["t"]), 1)
    assert story_lines(world, "shared").count(stories.JOINED) == 2, "a heartbeat is no news"
    world.send(sharing("shared", "m", 9), 1)
    assert story_lines(world, "shared")[-1] == stories.FENCED
    world.send(sharing("shared", "m", -1), 1)
    assert story_lines(world, "shared")[-1] == stories.LEFT
    world.advance(10 * 60_000)
    last = world.coordinator.shard.stories.of("shared")[-1]
    assert (last.what, last.member_id, last.client_id) == (stories.SILENT, "other", "client")


def test_a_story_has_members_of_streams_groups(world: GroupWorld) -> None:
    topology = Topology(epoch=0, subtopologies=[source_of("0", "t")])
    for member in ("m", "other"):
        world.send(streaming("app", member, 0, topology=topology), 0)
    assert story_lines(world, "app").count(stories.JOINED) == 2
    world.send(streaming("app", "m", 9), 0)
    assert story_lines(world, "app")[-1] == stories.FENCED
    world.send(streaming("app", "m", -1, shutdown_application=True), 0)
    last = world.coordinator.shard.stories.of("app")[-1]
    assert (last.what, last.detail) == (stories.LEFT, "it asked for the end of the application")
    world.advance(10 * 60_000)
    assert story_lines(world, "app")[-1] == stories.SILENT


def test_a_restart_forgets_the_story_and_nothing_else(world: GroupWorld) -> None:
    world.stable_group(2)
    world.restart()
    assert story_lines(world) == []
    assert world.describe().group_state == "Stable"
