"""Three nodes, of which any may die or be cut off at any moment, with in-sync sets as a controller grants them."""

from random import Random

import pytest
from replica_world import TOPIC_ID, World, WorldNode

from kpybroker.machines.metadata.topic import Partition
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord

SEGMENTS = {"segment.bytes": "1048576", "retention.ms": "-1"}


class Chaos:
    """The misfortunes of three nodes and their network, and what the controller makes of them."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = World(3, partitions=2, seed=seed, topic={**SEGMENTS, "min.insync.replicas": "2"})
        self.committed = [b"", b""]

    def state(self, index: int) -> Partition:
        return self.world.committed().topics_by_id[TOPIC_ID].partitions[index]

    def check(self) -> None:
        """Check that what a leader once had below its high watermark is there for good."""
        for index, before in enumerate(self.committed):
            leader = self.state(index).leader
            if leader >= 0 and self.world.nodes[leader].is_up:
                node = self.world.nodes[leader]
                data = self.world.contents(leader, index)
                assert data.startswith(before), f"partition {index} lost what was committed"
                end = node.log(index).position_of(node.high_watermark(index)).position
                self.committed[index] = max(before, data[:end], key=len)

    def step(self) -> None:
        rng, world = self.rng, self.world
        index, node = rng.randrange(2), world.nodes[rng.randint(1, 3)]
        leader, choice = self.state(index).leader, rng.random()
        if choice < 0.5:
            if leader >= 0:
                world.nodes[leader].produce(rng.randint(1, 4), index, value_bytes=rng.choice((10, 500)))
        elif choice < 0.65:
            self.elect(index)
        elif choice < 0.75:
            world.cut = {(a, b) for a in world.nodes for b in world.nodes if a != b and rng.random() < 0.3}
        elif choice < 0.82:
            world.cut = set()
        elif choice < 0.88 and node.is_up:
            self.kill(node)
        elif choice < 0.95 and not node.is_up:
            self.start(node)
        world.run(rng.choice((0, 1, 5, 50, 700, 20_000)))

    def elect(self, index: int) -> None:
        able = [each for each in self.state(index).isr if self.world.nodes[each].is_up]
        if able:
            self.world.lead(self.rng.choice(able), index)

    def kill(self, node: WorldNode) -> None:
        is_last = any(self.state(index).isr == (node.id,) for index in range(2))
        node.kill(power_fails=not is_last and self.rng.random() < 0.5)
        for index in range(2):
            held = self.state(index)
            isr = [each for each in held.isr if each != node.id] or [node.id]
            if node.id in held.isr:
                change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, isr=isr)
                if held.leader == node.id:
                    change.leader = isr[0] if self.world.nodes[isr[0]].is_up else -1
                self.world.tell(change)

    def start(self, node: WorldNode) -> None:
        node.start()
        for index in range(2):
            if self.state(index).leader < 0:
                self.elect(index)


@pytest.mark.seeds(0, 6)
def test_whatever_happens_committed_records_stay_and_all_logs_become_one(seed: int) -> None:
    chaos = Chaos(seed)
    world = chaos.world
    for _ in range(120):
        chaos.check()
        chaos.step()
    world.cut = set()
    for node in world.nodes.values():
        if not node.is_up:
            chaos.start(node)
    world.settle(40_000)
    chaos.check()
    for index in range(2):
        assert sorted(chaos.state(index).isr) == [1, 2, 3]
        world.assert_equal(index)
