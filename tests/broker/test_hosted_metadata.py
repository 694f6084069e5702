"""Shards hear of those changes of the metadata that their machines look at, and of no others."""

from collections.abc import Iterator

from hosting_world import OTHER_NODE, TOPIC, World

from kpywire.metadata_records.partition_change_record import PartitionChangeRecord


def test_shards_hear_of_deleted_topics_also_while_they_load() -> None:
    world = World()
    world.create()
    world.ask("put", "k")
    world = world.restart()
    other = bytes(16 * [9])
    world.create()
    world.create(partitions=2, name="t", topic_id=other)
    world.delete(other)
    assert world.machine.seen == []
    world.scheduler.run()
    assert [event[0] for event in world.machine.seen] == ["loaded", "deleted"]
    assert world.machine.seen[1] == ("deleted", None, {"t": [0, 1]})


def test_shards_that_follow_new_topics_hear_of_them_and_first_of_all_that_exist() -> None:
    world = World(follows_new_topics=True)
    world.create()
    world.scheduler.run()
    machine = world.machine
    assert [event[:3] for event in machine.seen[:1]] == [("grown", None, [TOPIC])]
    assert machine.seen[1][0] == "loaded"
    machine.seen.clear()
    other = bytes(16 * [9])
    world.create(partitions=2, name="t", topic_id=other)
    world.scheduler.run()
    ((what, _, grown, topics),) = machine.seen
    assert (what, grown, topics["t"].id, len(topics["t"].partitions)) == ("grown", ["t"], other, 2)
    machine.seen.clear()
    world.tell(PartitionChangeRecord(topic_id=other, partition_id=0, leader=OTHER_NODE))
    world.scheduler.run()
    assert machine.seen == [], "it looks at no leaders"
    world.add_partition(other, 2)
    world.delete(other)
    world.scheduler.run()
    assert machine.seen[-1] == ("deleted", None, {"t": [0, 1, 2]})
    assert [event[2] for event in machine.seen[:-1]] == [["t"]]


def test_shards_that_look_at_deleted_topics_alone_hear_of_nothing_else() -> None:
    world = World()
    world.create()
    world.scheduler.run()
    world.machine.seen.clear()
    other = bytes(16 * [9])
    world.create(name="t", topic_id=other)
    world.add_partition(other, 1)
    world.scheduler.run()
    assert world.machine.seen == []


def test_a_shard_hears_of_a_deletion_before_anything_that_comes_after_it() -> None:
    """Or what is committed for a new topic of the name would go with the old one."""
    world = World()
    world.create(partitions=3)
    other = bytes(16 * [9])
    world.create(partitions=2, name="t", topic_id=other)
    world.scheduler.run()
    works: list[Iterator[object]] = []
    world.scheduler.in_pieces = works.append
    world.delete(other)
    notified = ("deleted", None, {"t": [0, 1]})
    assert not any(notified in each.seen for each in world.machines)
    world.ask("note", key="k")
    asked = [each for each in world.machines if notified in each.seen]
    assert [[event[0] for event in each.seen][-2:] for each in asked] == [["deleted", "note"]]
    for work in works:
        for _ in work:
            pass
    assert [each.seen.count(notified) for each in world.machines] == [1, 1, 1]
