"""A quorum of several nodes, simulated: elections, replication, crashes, partitions; seeds repeat what fails."""

from random import Random

import pytest
from quorum_world import Faults, World

from kpybroker.machines.raft.roles import Follower


def elected(world: World) -> bool:
    return world.leader is not None


def agreed(world: World) -> bool:
    """Whether every node has everything that the leader has, and knows it to be committed."""
    leader = world.leader
    if leader is None or leader.quorum is None:
        return False
    end = leader.quorum.next_offset
    return all(node.quorum is not None and node.quorum.high_watermark == end for node in world.nodes)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_leader_is_elected_and_its_log_gets_everywhere(size: int) -> None:
    world = World(seed=size, size=size, observers=1)
    assert world.run(10_000, lambda: elected(world))
    for _ in range(20):
        world.append()
        world.run(7)
    assert world.run(5_000, lambda: agreed(world))
    assert len(world.committed) >= 21
    roles = [type(node.quorum.role) for node in world.nodes if node.quorum is not None and not node.quorum.is_leader]
    assert roles == [Follower] * size


@pytest.mark.parametrize("seed", [1, 7])
def test_without_a_majority_nothing_is_committed_and_the_leader_resigns(seed: int) -> None:
    world = World(seed)
    assert world.run(10_000, lambda: elected(world))
    leader = world.leader
    assert leader is not None
    assert world.run(5_000, lambda: agreed(world))
    world.cut_off = {frozenset((leader.id, other.id)) for other in world.nodes if other is not leader}
    before = len(world.committed)
    world.append()
    world.run(50)
    assert len(world.committed) == before, "what no majority has is not committed"
    assert world.run(20_000, lambda: leader.quorum is not None and not leader.quorum.is_leader), (
        "whom nobody hears resigns"
    )
    assert world.run(20_000, lambda: world.leader is not None)
    assert world.leader is not leader
    world.heal()
    assert world.run(20_000, lambda: agreed(world)), "what nobody committed is cut, and the node follows"


@pytest.mark.parametrize("seed", [2, 10])
def test_a_node_that_was_cut_off_does_not_disturb_a_living_leader(seed: int) -> None:
    world = World(seed)
    assert world.run(10_000, lambda: agreed(world))
    leader = world.leader
    assert leader is not None
    assert leader.quorum is not None
    epoch = leader.quorum.epoch
    follower = next(node for node in world.nodes if node is not leader)
    world.cut_off = {frozenset((follower.id, other.id)) for other in world.nodes if other is not follower}
    if seed % 16 < 8:  # the leader cannot tell it either that it is there still
        world.cut_off = {frozenset((follower.id, leader.id))}
    world.run(30_000)
    world.heal()
    assert world.run(20_000, lambda: agreed(world))
    assert leader.quorum.epoch == epoch, "the question before the vote keeps the epoch (KIP-996)"


def test_a_leader_that_resigns_is_followed_by_another_at_once() -> None:
    world = World(seed=3)
    assert world.run(10_000, lambda: agreed(world))
    leader = world.leader
    assert leader is not None
    assert leader.quorum is not None
    leader.quorum.resign()
    leader.pump()
    assert world.run(200, lambda: elected(world)), "the best candidate waits for no timeout"


@pytest.mark.seeds(0, 20)
def test_whatever_happens_what_is_committed_stays(seed: int) -> None:
    world = World(seed, size=3 + 2 * (seed % 2), faults=Faults.drawn(Random(seed)), observers=seed % 3 == 0)
    for _ in range(400):
        world.append()
        world.run(world.rng.uniform(0, 60))
    world.heal()
    assert world.run(60_000, lambda: agreed(world)), "with all nodes and the network back, the log goes on"
    world.append()
    assert world.run(5_000, lambda: agreed(world))


@pytest.mark.seeds(0, 8)
def test_whatever_happens_while_voters_change_what_is_committed_stays(seed: int) -> None:
    faults = Faults.drawn(Random(seed))._replace(change=0.03 if seed % 8 < 4 else 0.3)
    if seed % 16 < 8:  # well enough for most changes to come about
        faults = faults._replace(loss=0.0, most_delay_ms=2.0, most_sync_ms=20.0)
    world = World(seed, size=3, faults=faults, observers=2, is_dynamic=True)
    for _ in range(400):
        world.append()
        world.run(world.rng.uniform(0, 60))
    world.heal()
    assert world.run(60_000, lambda: agreed(world)), "with all nodes and the network back, the log goes on"
    assert world.leader is not None
    assert world.leader.quorum is not None
    assert world.leader.quorum.is_voter, "who was voted out leaves"
    world.append()
    assert world.run(5_000, lambda: agreed(world))
