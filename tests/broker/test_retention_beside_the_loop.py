"""Old records go without the loop waiting for a disk: what has to be on it first is written by a thread."""

from collections.abc import Callable
from typing import Any

import pytest
from hosting_world import World

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.replicas.upkeep import Upkeep
from kpystorage.disk import DescriptorsExhausted
from kpystorage.memory_disk import MemoryDisk
from kpywire.record import Record, build_batch

TOPIC_ID = bytes(range(16))
PARTITIONS = 3
LONG_AGO_MS = 1_000
CONFIG = BrokerConfig.load(None, {})


class Watched(MemoryDisk):
    """A disk that says what was waited for, and has no descriptor left if a test wants that."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.is_exhausted = False

    def write(self, path: str, data: Any, *, synchronize: bool) -> None:
        if synchronize:
            self.waits.append(path)
            if self.is_exhausted:
                raise DescriptorsExhausted(24, "Too many open files", path)
        super().write(path, data, synchronize=synchronize)

    def synchronize_directory(self, path: str) -> None:
        self.waits.append(path)
        super().synchronize_directory(path)


class Aging:
    """Logs of which every record is too old, and a thread that works when the test says so."""

    def __init__(self) -> None:
        self.disk = Watched()
        self.world = World(self.disk)
        self.world.create(PARTITIONS, "aging", TOPIC_ID)
        self.world.scheduler.run()
        self.logs = [self.world.replicas.find("aging", index).led().log for index in range(PARTITIONS)]
        for index, found in enumerate(self.logs):
            batch = bytearray(build_batch([Record(timestamp=LONG_AGO_MS, value=b"v")]))
            replica = self.world.replicas.find("aging", index)
            replica.led().append(memoryview(batch), replica.topic.validation, self.world.scheduler.now_ms())
            replica.changed()
            assert found.epochs.dirty
        self.works: list[tuple[Callable[[], Any], Callable[..., object]]] = []
        self.upkeep = Upkeep(self.world.scheduler, self.world.replicas, lambda: CONFIG)
        self.world.scheduler.submit_blocking = lambda work, done: self.works.append((work, done))  # type: ignore[method-assign]
        self.disk.waits.clear()

    def look(self) -> None:
        self.upkeep._delete_old_segments()
        self.world.scheduler.run()

    def work(self) -> None:
        """One piece of the thread's work, and what follows from it on the loop."""
        work, done = self.works.pop(0)
        failed = None
        try:
            work()
        except Exception as error:
            failed = error
        waits = len(self.disk.waits)
        done(None, failed)
        self.world.scheduler.run()
        assert len(self.disk.waits) == waits, "the loop waited for the disk"

    def left(self) -> list[int]:
        return [found.log_end_offset - found.log_start_offset for found in self.logs]


@pytest.fixture
def aging() -> Aging:
    return Aging()


def test_the_loop_waits_for_no_disk_where_old_records_go(aging: Aging) -> None:
    aging.look()
    assert aging.left() == [1] * PARTITIONS
    assert not aging.disk.waits
    while aging.works:
        aging.work()
    assert aging.left() == [0] * PARTITIONS
    assert aging.disk.waits, "the epochs that came before the new segments are on the disk"
    assert not any(found.is_in_use for found in aging.logs)


def test_a_round_that_is_not_over_is_not_begun_again(aging: Aging) -> None:
    aging.look()
    waiting = len(aging.works)
    aging.look()
    assert len(aging.works) == waiting


def test_a_log_that_lacks_a_descriptor_comes_with_the_next_round(aging: Aging) -> None:
    aging.look()
    aging.disk.is_exhausted = True
    aging.work()
    aging.disk.is_exhausted = False
    while aging.works:
        aging.work()
    assert sorted(aging.left()) == [0] * (PARTITIONS - 1) + [1]
    assert aging.world.directory.failure is None
    aging.look()
    while aging.works:
        aging.work()
    assert aging.left() == [0] * PARTITIONS


def test_a_topic_that_is_deleted_meanwhile_goes(aging: Aging) -> None:
    aging.look()
    aging.world.delete(TOPIC_ID)
    aging.world.scheduler.run()
    for _ in range(20):
        if aging.works:
            aging.work()
        aging.world.scheduler.advance(10)
    assert not aging.world.directory.logs
    assert aging.world.directory.failure is None


def test_a_node_that_stops_begins_no_more_of_it(aging: Aging) -> None:
    aging.look()
    aging.upkeep.stop()
    aging.work()
    assert not aging.works
