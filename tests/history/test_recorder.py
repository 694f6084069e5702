"""The recorder: samples by the clock of the simulation, its file, and what it learns of the cluster."""

import errno
import logging
import math
import os

import pytest
from day import PLACE, START_MS, CountingNode

from kpybroker.monitoring.history import changes, samples
from kpybroker.monitoring.history.samples import COARSE_SAMPLES, FINE_MS, FINE_SAMPLES, HistoryEvent
from kpystorage.memory_disk import MemoryDisk
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.varint import Buffer

MINUTE_MS, DAY_MS = 60_000, 86_400_000
MOST_BYTES_PER_S = 100
TOPIC_ID = bytes(15) + b"\1"
STARTED = HistoryEvent(START_MS, changes.STARTED, "1")


def times_of(node: CountingNode) -> list[int]:
    return [(each.at_ms - START_MS) // FINE_MS for each in node.recorder.rings.fine]


def test_a_sample_is_taken_every_ten_seconds_with_rates_per_second() -> None:
    node = CountingNode(None)
    for requests in (50, 0, 100):
        node.serve(requests, took_ns=4_000_000)
        node.watch.late_ns += 20_000_000
        node.scheduler.advance(FINE_MS)
    assert times_of(node) == [1, 2, 3]
    assert [each.value(samples.REQUESTS) for each in node.recorder.rings.fine] == [5.0, 0.0, 10.0]
    assert [each.value(samples.LATE) for each in node.recorder.rings.fine] == [2.0, 2.0, 2.0]
    times = [each.value(samples.PRODUCE_P50) for each in node.recorder.rings.fine]
    assert times[0] == pytest.approx(4, rel=0.5)
    assert math.isnan(times[1]), "nothing was measured"


def test_samples_stand_at_round_times_whenever_the_node_started() -> None:
    node = CountingNode(None, START_MS + 3_456)
    node.scheduler.advance(3 * FINE_MS)
    assert times_of(node) == [1, 2, 3]


def test_a_timer_that_is_early_does_not_take_a_second_sample_of_the_same_time() -> None:
    node = CountingNode(None, START_MS + FINE_MS - 3)
    node.scheduler.advance(FINE_MS + 10)
    assert times_of(node) == [2]


def test_the_last_minute_is_known_at_once_and_ends_now() -> None:
    node = CountingNode(None)
    node.produce.local_ns += 500_000_000
    node.scheduler.advance(2_000)
    rates, passed_s = node.recorder.last_minute()
    assert passed_s == 2.0
    node.serve(1)
    rates, _ = node.recorder.last_minute()
    assert rates["loop Produce"] == 0.25
    node.scheduler.advance(10 * MINUTE_MS)
    assert node.recorder.last_minute()[1] == pytest.approx(60, abs=10)


def test_a_restart_forgets_nothing_and_leaves_a_gap() -> None:
    disk = MemoryDisk()
    node = CountingNode(disk)
    node.serve(100)
    node.scheduler.advance(3 * MINUTE_MS)
    node.recorder.close()
    again = CountingNode(disk, START_MS + 5 * MINUTE_MS)
    again.scheduler.advance(FINE_MS)
    assert times_of(again) == [*range(1, 19), 31]
    assert again.recorder.rings.fine[0].value(samples.REQUESTS) == 10.0
    assert list(again.recorder.rings.events) == [STARTED, STARTED._replace(at_ms=START_MS + 5 * MINUTE_MS)]


def test_a_crash_forgets_a_minute_at_most() -> None:
    disk = MemoryDisk()
    node = CountingNode(disk)
    node.scheduler.advance(4 * MINUTE_MS + 50_000)
    again = CountingNode(disk, START_MS + 5 * MINUTE_MS)
    again.scheduler.run()
    assert times_of(again) == list(range(1, 25))
    assert len(again.recorder.rings.coarse) == 3


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"kpybroker history 9\n", b"kpybroker history 1\n\xff\xff"])
def test_a_file_that_is_none_is_begun_again_with_one_line(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    CountingNode(disk).recorder.close()
    disk.write(PLACE, content, synchronize=False)
    with caplog.at_level(logging.INFO, "kpybroker.history"):
        node = CountingNode(disk)
        node.scheduler.advance(MINUTE_MS)
    (line,) = caplog.messages
    assert PLACE in line
    assert "begun again" in line
    node.recorder.close()
    again = CountingNode(disk, START_MS + 2 * MINUTE_MS)
    again.scheduler.run()
    assert times_of(again) == list(range(1, 7))


class FullDisk(MemoryDisk):
    """A disk that is full for some time."""

    is_full = True

    def write(self, path: str, data: Buffer, *, synchronize: bool) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().write(path, data, synchronize=synchronize)


def test_a_full_disk_is_reported_once_and_costs_no_sample(caplog: pytest.LogCaptureFixture) -> None:
    disk = FullDisk()
    node = CountingNode(disk)
    with caplog.at_level(logging.INFO, "kpybroker.history"):
        node.scheduler.advance(5 * MINUTE_MS)
    (line,) = caplog.messages
    assert line.endswith("It is kept in memory only")
    assert times_of(node) == list(range(1, 31))
    disk.is_full = False
    node.scheduler.advance(MINUTE_MS)
    again = CountingNode(disk, START_MS + 7 * MINUTE_MS)
    again.scheduler.run()
    assert times_of(again) == list(range(1, 37)), "the next write has everything"


def test_two_days_keep_one_in_a_small_file_that_is_written_slowly() -> None:
    disk = MemoryDisk()
    node = CountingNode(disk)
    node.scheduler.advance(2 * DAY_MS)
    rings = node.recorder.rings
    assert (len(rings.fine), len(rings.coarse)) == (FINE_SAMPLES, COARSE_SAMPLES)
    assert rings.coarse[0].at_ms > START_MS + DAY_MS - 2 * MINUTE_MS
    status = disk.status(PLACE)
    assert status is not None
    assert status.size < 2 << 20
    assert node.file is not None
    assert node.file.written_bytes / (2 * DAY_MS / 1000) < MOST_BYTES_PER_S


def registration(number: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=number,
        is_migrating_zk_broker=False,
        incarnation_id=bytes(16),
        broker_epoch=number,
        end_points=[],
        features=[],
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=[],
    )


def partition(index: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=TOPIC_ID,
        replicas=[1, 2],
        isr=[1, 2],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )


def fenced(number: int, state: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=number, broker_epoch=number, fenced=state)


def test_events_are_what_changes_in_the_cluster() -> None:
    node = CountingNode(None)
    node.role.unready = "it catches up"
    node.change(registration(1))
    node.role.unready = None
    topic = TopicRecord(name="flights", topic_id=TOPIC_ID)
    config = ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="5")
    node.change(topic, partition(0), partition(1), config)
    node.change(registration(2))
    moves = [PartitionChangeRecord(partition_id=each, topic_id=TOPIC_ID, leader=2) for each in (0, 1)]
    node.change(fenced(1, 1), *moves)
    node.change(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1, isr=[2]))
    node.change(fenced(1, -1), config)
    assert [each[1:] for each in node.recorder.rings.events][1:] == [
        (changes.JOINED, "2", 1, ""),
        (changes.GONE, "1", 1, ""),
        (changes.LED, "flights-0", 2, "2 1"),
        (changes.NOT_LED, "flights-0", 1, "2"),
        (changes.BACK, "1", 1, ""),
        (changes.CONFIG, "topic flights", 1, "retention.ms"),
    ]
    node.scheduler.advance(FINE_MS)
    last = node.recorder.rings.fine[-1]
    assert (last.value(samples.WITHOUT_LEADER), last.value(samples.UNDER_REPLICATED)) == (1.0, 0.0)
