"""The index of partitions answers as a walk over all of them would, whenever it is asked."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from kpybroker.machines.controller.partition_index import PartitionIndex
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.units import NewPartitions, Unit
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord

BROKERS = range(6)


class Indexed(MetadataDelta):
    """An image whose changes the index hears, as from the state of a controller."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng
        self.image = MetadataImage("c")
        self.index: Any = None
        self._topics = 0

    def topic_created(self, topic: Topic) -> None:
        if self.index is not None:
            self.index.topic_created(topic)

    def topic_deleted(self, topic: Topic) -> None:
        if self.index is not None:
            self.index.topic_deleted(topic)

    def partition_changed(self, topic: Topic, partition_id: int, before: Partition | None) -> None:
        if self.index is not None:
            self.index.partition_changed(topic, partition_id, before)

    def partitions_added(self, topic: Topic, added: Iterable[int]) -> None:
        if self.index is not None:
            self.index.partitions_added(topic, added)

    def apply(self, *records: Any) -> None:
        for record in records:
            self.image.apply(record, self.image.next_offset, self)

    def placed(self, topic_id: bytes, index: int) -> PartitionRecord:
        replicas = self.rng.sample(BROKERS, 3)
        leader = self.rng.choice((replicas[0], replicas[1], -1))
        return PartitionRecord(
            topic_id=topic_id, partition_id=index, replicas=replicas, isr=replicas[:2], leader=leader, leader_epoch=0
        )

    def create(self) -> None:
        self._topics += 1
        topic_id = self._topics.to_bytes(16, "big")
        records = [self.placed(topic_id, index) for index in range(self.rng.randrange(1, 5))]
        self.apply(TopicRecord(name=f"t{self._topics}", topic_id=topic_id))
        if self.rng.random() < 0.5:
            self.apply(*records)
            return
        new = {record.partition_id: Partition.from_record(record) for record in records}
        self.image.apply_unit(Unit([NewPartitions(topic_id, new)], len(new)), self.image.next_offset, self)

    def change(self) -> None:
        topic = self.rng.choice(list(self.image.topics.values()))
        record = PartitionChangeRecord(topic_id=topic.id, partition_id=self.rng.choice(list(topic.partitions)))
        replicas = self.rng.sample(BROKERS, 3)
        record.leader = self.rng.choice((*replicas, -1, -2))
        if self.rng.random() < 0.4:
            record.replicas, record.isr = replicas, replicas[:1]
        if self.rng.random() < 0.3:
            record.eligible_leader_replicas = self.rng.sample(BROKERS, self.rng.randrange(3))
        if self.rng.random() < 0.2:
            record.isr = []
        self.apply(record)

    def act(self) -> None:
        if not self.image.topics or self.rng.random() < 0.2:
            self.create()
        elif self.rng.random() < 0.1:
            self.apply(RemoveTopicRecord(topic_id=self.rng.choice(list(self.image.topics_by_id))))
        else:
            self.change()

    def walked(self) -> list[tuple[str, int, Partition]]:
        return [
            (topic.name, index, partition)
            for topic in self.image.topics.values()
            for index, partition in topic.partitions.items()
        ]


def named(found: Iterable[tuple[Topic, int, Partition]]) -> set[tuple[str, int]]:
    listed = [(topic.name, index) for topic, index, _ in found]
    assert len(listed) == len(set(listed)), "a partition is found once"
    return set(listed)


def check(world: Indexed) -> None:
    index, walked = world.index, world.walked()
    for broker in BROKERS:
        members = {(name, number) for name, number, each in walked if broker in (*each.replicas, *each.isr, *each.elr)}
        assert named(index.held_by(broker)) == members
        assert index.leads_any(broker) == any(each.leader == broker for _, _, each in walked)
    displaced = {(name, number) for name, number, each in walked if each.leader != each.preferred_leader}
    assert named(index.displaced()) == displaced
    assert named(index.leaderless()) == {(name, number) for name, number, each in walked if each.leader < 0}


@pytest.mark.parametrize("seed", range(20))
def test_the_index_finds_what_a_walk_over_all_partitions_finds(seed: int) -> None:
    world = Indexed(Random(seed))
    for _ in range(20):
        world.act()
    world.index = PartitionIndex(world.image)
    steps = world.index.steps()
    for _ in range(60):
        if world.rng.random() < 0.3:
            next(steps, None)  # the topics that are left are indexed as they are then
        if world.rng.random() < 0.1:
            check(world)
        world.act()
    check(world)


def test_a_partition_that_moves_to_and_fro_takes_no_more_and_more_memory() -> None:
    world = Indexed(Random(1))
    world.index = PartitionIndex(world.image)
    world.create()
    topic = next(iter(world.image.topics.values()))
    for number in range(10_000):
        replicas = [number % 2, 2, 3]
        world.apply(PartitionChangeRecord(topic_id=topic.id, partition_id=0, replicas=replicas, isr=replicas))
    assert all(len(entries) < 2_000 for entries in world.index._held.values())


def test_partitions_are_found_in_the_order_of_their_topics() -> None:
    world = Indexed(Random(2))
    world.index = PartitionIndex(world.image)
    for _ in range(5):
        world.create()
    found = [(topic.name, index) for topic, index, _ in world.index.held_by(1)]
    assert found == sorted(found, key=lambda each: (int(each[0][1:]), each[1]))
