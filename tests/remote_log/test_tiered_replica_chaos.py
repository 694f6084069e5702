"""Three nodes of a tiered partition, of which any may die or lose its disk at any moment: what was committed is on a
disk or in the store, and no offset is given twice."""

from random import Random

import pytest
from tiered_replicas import TieredReplicas, batches_of

from kpybroker.hosts.remote_log.empty_leaders import EmptyLeaders
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import Partition
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.remote_log.lineage import copied_until, segment_for
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from tests.replication.replica_world import TOPIC_ID, WorldNode

STEPS = 150


class TieredChaos:
    """The misfortunes of three nodes and their store, and what the controller makes of them."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        skips = {"follower.fetch.last.tiered.offset.enable": "true"} if seed % 3 == 0 else {}
        self.world = TieredReplicas(3, overrides=skips)
        self.committed: dict[int, bytes] = {}
        """The committed batches, by base offset."""
        self.end = 0
        """The offset behind them."""
        self.counted: dict[str, int] = {}
        self.producers = 0

    def state(self) -> Partition:
        return self.world.committed().topics_by_id[TOPIC_ID].partitions[0]

    def note(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def leader(self) -> tuple[WorldNode, PartitionLeader] | None:
        """The node that leads, and its role, if it serves."""
        leader = self.state().leader
        if leader < 0 or not self.world.nodes[leader].is_up:
            return None
        try:
            return self.world.nodes[leader], self.world.nodes[leader].replica().led()
        except KafkaError:
            return None

    def copied_end(self) -> int:
        segments = self.world.segments[0]
        epochs = segments.copied_epochs()
        return segments.highest_offset(epochs[-1]) + 1 if epochs else 0

    # Invariants

    def check(self) -> None:
        """Check that everything that was committed is read from the leader and the store."""
        found = self.leader()
        if found is None:
            return
        node, leader = found
        log, segments = leader.log, self.world.segments[0]
        assert log.end.offset >= self.end, "committed records are gone"
        local = batches_of(self.world.contents(node.id))
        for base, batch in local.items():
            if base < leader.high_watermark.offset:
                assert self.committed.setdefault(base, batch) == batch, f"offset {base} was given twice"
        self.end = max(self.end, leader.high_watermark.offset)
        for base, batch in self.committed.items():
            if base in local or base < log.log_start_offset:
                continue
            segment = segment_for(segments, log.epochs.entries(), base)
            assert segment is not None, f"{base} is neither on the disk nor in the store"
            assert self.world.store.batches[segment.id.segment_id][base] == batch

    # Events

    def step(self) -> None:
        rng, world = self.rng, self.world
        node, found, choice = world.nodes[rng.randint(1, 3)], self.leader(), rng.random()
        if choice < 0.3:
            self.produce()
        elif choice < 0.4 and found is not None:
            world.roll(found[0].id)
        elif choice < 0.5 and found is not None:
            world.copy(found[0].id, until=found[1].high_watermark.offset)
        elif choice < 0.6:
            self.leave_disk(node)
        elif choice < 0.7:
            self.elect()
        elif choice < 0.74:
            world.are_metadata_read = not world.are_metadata_read
        elif choice < 0.78:
            world.store.fails = "" if world.store.fails else "the store is away"
        elif choice < 0.84:
            self.end_node(world.nodes[self.state().isr[-1]] if rng.random() < 0.4 else node)
        elif choice < 0.95 and not node.is_up:
            self.start(node)
        world.run(rng.choice((0, 1, 2, 5, 50, 700, 20_000)))

    def produce(self) -> None:
        found = self.leader()
        if found is not None:
            self.producers += 1
            of_producer = {"producer_id": self.producers, "producer_epoch": 0, "base_sequence": 0}
            try:
                found[0].produce(self.rng.randint(1, 4), **(of_producer if self.rng.random() < 0.2 else {}))
            except KafkaError:
                self.note("refused")

    def leave_disk(self, node: WorldNode) -> None:
        """Delete from a node's disk what the store has."""
        log = node.replica().log if node.is_up else None
        if log is None:
            return
        until = copied_until(self.world.segments[0], log.epochs.entries(), log.local_log_start_offset)
        count = sum(end <= until for end in log.base_offsets[1:])
        log.flush()
        if log.delete_oldest(self.rng.randint(0, count), self.world.scheduler.now_ms()):
            self.note("left the disk")

    def elect(self) -> None:
        able = [each for each in self.state().isr if self.world.nodes[each].is_up]
        if able:
            self.world.lead(self.rng.choice(able))

    def end_node(self, node: WorldNode) -> None:
        """End a node, perhaps with its disk."""
        if not node.is_up:
            return
        held, disk_is_lost = self.state(), self.rng.random() < 0.6
        is_last = held.isr == (node.id,)
        if disk_is_lost:
            self.world.lose_disk(node.id)
            self.note("lost disk")
        else:
            node.kill(power_fails=not is_last and self.rng.random() < 0.5)
        if is_last and disk_is_lost:
            self.note("last disk lost")
            self.end = min(self.end, self.copied_end())
            self.committed = {base: each for base, each in self.committed.items() if base < self.end}
        isr = [each for each in held.isr if each != node.id] or [node.id]
        if node.id in held.isr:
            change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=isr)
            if held.leader == node.id:
                change.leader = isr[0] if self.world.nodes[isr[0]].is_up else -1
            self.world.tell(change)

    def start(self, node: WorldNode) -> None:
        node.start()
        if self.state().leader < 0:
            self.elect()

    def comes_to_rest(self) -> None:
        """All nodes run, and the store answers."""
        self.world.are_metadata_read, self.world.store.fails = True, ""
        for node in self.world.nodes.values():
            if not node.is_up:
                self.start(node)
        self.world.settle(40_000)
        self.produce()
        self.world.settle()
        self.check()
        assert sorted(self.state().isr) == [1, 2, 3]
        one, *others = [node.log() for node in self.world.nodes.values()]
        assert {each.end.offset for each in others} == {one.end.offset}
        assert all(each.epochs.latest == one.epochs.latest for each in others)
        assert all(each.producers.producers.keys() == one.producers.producers.keys() for each in others)


def play(seed: int) -> TieredChaos:
    chaos = TieredChaos(seed)
    for _ in range(STEPS):
        chaos.check()
        chaos.step()
    chaos.comes_to_rest()
    return chaos


@pytest.mark.seeds(0, 8)
def test_whatever_happens_committed_records_stay(seed: int) -> None:
    play(seed)


def test_the_misfortunes_happen() -> None:
    counted: dict[str, int] = {}
    for seed in range(4):
        chaos = play(seed)
        for what, count in chaos.counted.items():
            counted[what] = counted.get(what, 0) + count
        begun = chaos.world.figures.of("t").aux_states
        counted["begun"] = counted.get("begun", 0) + begun
    assert min(counted.get(what, 0) for what in ("left the disk", "lost disk", "last disk lost", "begun")) > 0


def _begins_at_once(_self: EmptyLeaders, *_arguments: object) -> None:
    """A leader that believes its empty log."""


def test_a_leader_that_believes_its_empty_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmptyLeaders, "check", _begins_at_once)
    monkeypatch.setattr(EmptyLeaders, "beginning", _begins_at_once)
    assert is_found()


def is_found() -> bool:
    for seed in range(20):
        try:
            play(seed)
        except AssertionError:
            return True
    return False
