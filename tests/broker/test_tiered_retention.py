"""The periodic deletion from the disk asks what a store has, and deletes nothing on its own account."""

from types import SimpleNamespace
from typing import Any

from hosting_world import World

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.tiering import NoTiering
from kpybroker.hosts.replicas.upkeep import Upkeep
from kpybroker.machines.partition.role import Role
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire.record import Record, build_batch

TOPIC_ID = bytes(range(16))
LONG_AGO_MS = 1_000
CONFIG = BrokerConfig.load(None, {})
TIERED = LogConfig(retention_ms=0, retention_bytes=0, is_tiered=True, file_delete_delay_ms=0)


class Copied(NoTiering):
    """A store that has the oldest segments."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[tuple[str, int]] = []

    def expendable(self, replica: Replica, role: Role, now_ms: int) -> int:
        self.asked.append((str(replica), now_ms))
        return min(self.count, len(role.log.segments) - 1)


class AgingTier:
    """A log of four segments, all of which retention would delete."""

    def __init__(self, tiering: NoTiering | None = None) -> None:
        self.world = World(MemoryDisk())
        self.world.create(1, "tiered", TOPIC_ID)
        self.world.scheduler.run()
        self.replica = self.world.replicas.find("tiered", 0)
        for number in range(4):
            if number:
                self.log.roll(LONG_AGO_MS)
            batch = memoryview(bytearray(build_batch([Record(timestamp=LONG_AGO_MS, value=b"v")])))
            self.replica.led().append(batch, self.replica.topic.validation, self.world.scheduler.now_ms())
        self.replica.changed()
        self.log.configure(TIERED)
        self.log.flush()
        self.upkeep = Upkeep(self.world.scheduler, self.world.replicas, lambda: CONFIG, tiering)

    @property
    def log(self) -> Log:
        return self.replica.led().log

    def round(self) -> None:
        self.upkeep._delete_old_segments()
        for _ in range(20):
            self.world.scheduler.advance(10)


def test_nothing_of_a_tiered_log_is_deleted_where_nothing_is_known_of_the_store() -> None:
    aging = AgingTier()
    aging.round()
    assert len(aging.log.segments) == 4
    aging.log.configure(TIERED._replace(is_tiered=False))
    aging.round()
    assert aging.log.log_start_offset == 4


def test_what_the_store_has_goes_from_the_disk_and_stays_for_readers() -> None:
    tiering = Copied(2)
    aging = AgingTier(tiering)
    aging.round()
    assert tiering.asked == [("tiered-0", tiering.asked[0][1])]
    assert aging.log.base_offsets == [2, 3]
    assert (aging.log.log_start_offset, aging.log.local_log_start_offset) == (0, 2)


def test_a_segment_whose_successor_is_not_flushed_goes_with_a_later_round() -> None:
    aging = AgingTier(Copied(3))
    aging.log.recovery_point = 1
    aging.log.directory.rolled.clear()
    aging.round()
    assert aging.log.base_offsets[0] <= 1
    assert aging.log in aging.log.directory.rolled
    aging.upkeep._flush_if_due()
    aging.world.scheduler.run()
    aging.round()
    assert aging.log.base_offsets == [3]


def test_a_tiered_log_that_is_not_used_is_looked_at_too_if_it_is_on_a_disk() -> None:
    upkeep: Any = AgingTier().upkeep
    config = SimpleNamespace(tier=object(), delete=True, retention_ms=-1, retention_bytes=-1)
    for name, is_on_disk in (("tiered", True), ("elsewhere", False)):
        topic = SimpleNamespace(name=name, config=config)
        assert upkeep._may_age(SimpleNamespace(log=None, index=0, topic=topic)) == is_on_disk
