"""Records that one replica has lost, and no other: it does not lead them away, and nobody takes its gap over."""

import logging
from collections.abc import Callable

import pytest
from replica_world import TOPIC, World, WorldNode

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import LOST_DIRECTORY
from kpybroker.machines.replica_fetcher import FetchState
from kpystorage.errors import CorruptLog
from kpywire import error_codes
from kpywire.batch import parse_header
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.record import Record, build_batch

SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "0"}
LEFT_MS = 1_100


class Noted:
    """The directories that the controller hears of, and its answers."""

    def __init__(self) -> None:
        self.assigned: list[bytes] = []
        self.then: list[Callable[[], object]] = []

    def assign(
        self, _topic_id: bytes, _index: int, directory_id: bytes, then: Callable[[], object] | None = None
    ) -> None:
        self.assigned.append(directory_id)
        if then is not None:
            self.then.append(then)


def filled(world: World) -> int:
    """Some segments on both nodes; where the second one begins."""
    for _ in range(30):
        world.nodes[1].produce(value_bytes=200_000)
    world.settle()
    world.assert_equal()
    bases = world.nodes[1].log().base_offsets
    assert len(bases) > 4
    return bases[1]


def lose(node: WorldNode, base_offset: int) -> None:
    """A sealed segment is empty."""
    node.disk.file(f"/data/{TOPIC}-0/{base_offset:020d}.log").truncate(0)
    node.disk.synchronize_all("/")


def started(world: World, node_id: int) -> Noted:
    noted = Noted()
    world.nodes[node_id].start()
    world.nodes[node_id].assignments.by = noted
    return noted


def test_a_replica_that_lost_records_has_another_lead_and_fetches_them() -> None:
    world = World(2, topic=SMALL)
    gap = filled(world)
    world.nodes[1].stop()
    lose(world.nodes[1], gap)
    noted = started(world, 1)
    replica = world.nodes[1].replica()
    assert replica.partition.leader == 1
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            replica.led()
        assert refused.value.code == error_codes.KAFKA_STORAGE_ERROR
    assert noted.assigned == [LOST_DIRECTORY], "said once"
    world.lead(2, isr=[2])
    noted.then[0]()
    world.settle(LEFT_MS + 3_000)
    assert noted.assigned[0] == LOST_DIRECTORY
    assert LOST_DIRECTORY not in noted.assigned[1:]
    assert noted.assigned[1:], "it says where it lies, now that it follows"
    world.assert_equal()
    world.lead(1)
    world.settle()
    world.nodes[1].produce()
    world.settle()
    world.assert_equal()


def test_a_follower_that_lost_records_leaves_the_in_sync_set_and_fetches_them() -> None:
    world = World(2, topic=SMALL)
    gap = filled(world)
    world.nodes[2].stop()
    lose(world.nodes[2], gap)
    noted = started(world, 2)
    world.settle()
    assert noted.assigned == [LOST_DIRECTORY]
    assert world.nodes[2].replica().follower is None
    noted.then[0]()
    world.settle(LEFT_MS + 3_000)
    world.assert_equal()


def test_a_gap_in_flushed_records_takes_the_only_in_sync_log_offline() -> None:
    world = World(1, topic=SMALL)
    gap = filled(world)
    node = world.nodes[1]
    node.stop()
    lose(node, gap)
    for _ in range(2):  # and the next start finds it again
        noted = started(world, 1)
        with pytest.raises(CorruptLog, match=rf"records from offset {gap} up to \d+ are missing.*`kpybroker check`"):
            node.replica().led()
        assert noted.assigned == []
        node.stop()


def test_a_stop_before_others_lead_does_not_count_as_clean() -> None:
    world = World(2, topic=SMALL)
    gap = filled(world)
    world.nodes[1].stop()
    lose(world.nodes[1], gap)
    started(world, 1)
    with pytest.raises(KafkaError):
        world.nodes[1].replica().led()
    world.nodes[1].stop()
    world.nodes[1].start()
    assert [each.previous_broker_epoch for each in world.nodes[1].log_directories] == [-1]


def test_a_gap_of_the_leader_stops_one_partition_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    world = World(2, partitions=2)
    leader = world.nodes[1].replica(0)
    for offset in (0, 7):
        record = Record(timestamp=world.scheduler.now_ms(), value=b"x")
        batch = build_batch([record], base_offset=offset, partition_leader_epoch=leader.led().epoch)
        leader.led().log.append([parse_header(batch)], batch, world.scheduler.now_ms())
    leader.changed()
    world.nodes[1].produce(5, 1)
    world.settle(60_000)
    assert world.nodes[2].log(0).end.offset == 0
    world.nodes[1].produce(5, 1)
    world.settle()
    world.assert_equal(1)
    (following,) = [
        each
        for feed in world.nodes[2].fetchers
        for each in feed.fetcher.followings.values()
        if each.state is FetchState.FAILED
    ]
    assert str(following.replica) == f"{TOPIC}-0"
    (line,) = [record.getMessage() for record in caplog.records if f"{TOPIC}-0" in record.getMessage()]
    assert "no records from offset 1 up to 7" in line
    assert world.nodes[2].fetchers.state()[1] == 1
    world.tell(ConfigRecord(resource_type=2, resource_name=TOPIC, name="cleanup.policy", value="compact"))
    world.settle()
    assert world.nodes[2].log(0).end.offset == 8, "compaction explains it"
    assert world.nodes[2].fetchers.state()[1] == 0
