"""The upkeep of logs: they are flushed from time to time, and old segments are deleted."""

import errno
import shutil
import socket
import threading
from pathlib import Path
from time import sleep

import pytest
from running_node import RunningNode, start
from test_node import create, produce

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.upkeep import FLUSHES_AT_ONCE
from kpystorage import names
from kpystorage.disk import DescriptorsExhausted
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient
from support.waiting import eventually

OLD_MS = 1_000
FETCH = 1
SEGMENT_BYTES = 1 << 20
OLD_VALUE = bytes(SEGMENT_BYTES * 6 // 10)


def replica_of(node: RunningNode, topic: str) -> Replica:
    assert node.node.broker is not None
    return node.node.broker.replicas.find(topic, 0)


def produce_old(client: RawClient, topic: str) -> None:
    """A record from 1970, large enough for two of them not to fit into a segment."""
    batch = build_batch([Record(timestamp=OLD_MS, value=OLD_VALUE)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9)
    assert answer.responses[0].partition_responses[0].error_code == error_codes.NONE


@pytest.mark.parametrize("key", ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"])
def test_a_log_is_flushed_when_its_time_has_passed(tmp_path: Path, key: str) -> None:
    node = RunningNode({"log.dirs": str(tmp_path), key: "50"})
    try:
        with RawClient(node.port) as client:
            create(client, "t")
            for expected in (1, 2):
                assert produce(client, "t", b"v") == error_codes.NONE
                log = replica_of(node, "t").log
                assert log is not None
                eventually(lambda expected=expected, log=log: log.recovery_point == expected)  # type: ignore[misc]
    finally:
        node.stop()


def test_retention_deletes_records_in_logs_unused_since_the_start(tmp_path: Path) -> None:
    node = start(tmp_path)
    with RawClient(node.port) as client:
        for topic, retention_ms in (("aging", "1000"), ("kept", "-1")):
            configs = [
                CreatableTopicConfig(name="retention.ms", value=retention_ms),
                CreatableTopicConfig(name="segment.bytes", value=str(SEGMENT_BYTES)),
            ]
            wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=configs)
            created = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=False), 7)
            assert created.topics[0].error_code == error_codes.NONE
            for _ in range(3):
                produce_old(client, topic)
    node.stop()
    node = RunningNode({"log.dirs": str(tmp_path), "log.retention.check.interval.ms": "50"})
    try:

        def first_is_gone() -> bool:
            return not (tmp_path / "aging-0" / f"{0:020d}.log").exists()

        eventually(first_is_gone)
        assert len(list((tmp_path / "kept-0").glob("*.log"))) == 3
        assert replica_of(node, "kept").log is None
    finally:
        node.stop()


def test_files_of_segments_that_went_are_removed_when_their_delay_is_over(tmp_path: Path) -> None:
    node = start(tmp_path)
    try:
        with RawClient(node.port) as client:
            configs = [
                CreatableTopicConfig(name=name, value=value)
                for name, value in (
                    ("retention.ms", "1000"),
                    ("segment.bytes", str(SEGMENT_BYTES)),
                    ("file.delete.delay.ms", "200"),
                )
            ]
            wanted = CreatableTopic(
                name="aging", num_partitions=1, replication_factor=1, assignments=[], configs=configs
            )
            client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=False), 7)
            for _ in range(3):
                produce_old(client, "aging")
        log = replica_of(node, "aging").log
        assert log is not None
        now_ms = node.node.scheduler.now_ms()
        assert node.call(lambda: log.delete_old_segments(now_ms, log.end.offset)) == 3
        assert list((tmp_path / "aging-0").glob("*.deleted"))
        eventually(lambda: not list((tmp_path / "aging-0").glob("*.deleted")))
    finally:
        node.stop()


RECORDS = 20
"""More than the buffers of a connection hold."""


def small_segments(client: RawClient, topic: str, **configs: str) -> None:
    """A topic of one partition whose segments hold one old record each by default, and go at once."""
    given = {"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "0", **configs}
    wanted = CreatableTopic(
        name=topic,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in given.items()],
    )
    client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=False), 7)


def fetch_of(topic: str, offset: int, size: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=size, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )


def test_an_answer_that_is_under_way_is_finished_though_its_segment_is_gone(tmp_path: Path) -> None:
    node = start(tmp_path)
    whole = RECORDS * SEGMENT_BYTES
    slow = RawClient(node.port)
    slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    try:
        with RawClient(node.port) as client:
            small_segments(client, "aging", **{"retention.ms": "1000", "segment.bytes": str(whole)})
            for _ in range(RECORDS):
                produce_old(client, "aging")
            slow.send(fetch_of("aging", 0, whole), 12)
            eventually(lambda: bool(slow.sock.recv(1, socket.MSG_PEEK)))
            log = replica_of(node, "aging").log
            assert log is not None
            now_ms = node.node.scheduler.now_ms()
            assert node.call(lambda: log.delete_old_segments(now_ms, log.end.offset)) == 1
            left = [f"{RECORDS:020d}.log"]
            eventually(lambda: [each.name for each in (tmp_path / "aging-0").glob("*.log*")] == left)
            late = client.call(fetch_of("aging", 0, SEGMENT_BYTES), 12).responses[0].partitions[0]
            assert late.error_code == error_codes.OFFSET_OUT_OF_RANGE
        answer = slow.receive(FETCH, 12).responses[0].partitions[0]
        assert answer.error_code == error_codes.NONE
        read = [(record.offset, record.value) for record in read_records(answer.records)]
        assert read == [(number, OLD_VALUE) for number in range(RECORDS)]
    finally:
        slow.sock.close()
        node.stop()


def test_deleted_records_do_not_come_back_whoever_read_the_log_start_before_a_crash(tmp_path: Path) -> None:
    node = start(tmp_path / "one")
    with RawClient(node.port) as client:
        small_segments(client, "kept", **{"retention.ms": "-1"})
        for _ in range(3):
            produce_old(client, "kept")
        log = replica_of(node, "kept").log
        assert log is not None
        directory = log.directory
        written: list[int] = []
        write = directory.write_checkpoint

        def watched(name: str, data: bytes) -> None:
            if name == names.LOG_STARTS:
                written.append(log.log_start_offset)
            write(name, data)

        directory.write_checkpoint = watched  # type: ignore[method-assign]
        wanted = DeleteRecordsTopic(name="kept", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        answer = client.call(DeleteRecordsRequest(topics=[wanted], timeout_ms=1000), 2)
        assert answer.topics[0].partitions[0].low_watermark == 2
        assert written == [0], "the log start moved before it was on disk"
        shutil.copytree(tmp_path / "one", tmp_path / "two")  # what a crash would leave now
    node.stop()
    node = start(tmp_path / "two")
    try:
        with RawClient(node.port) as client:
            late = client.call(fetch_of("kept", 1, SEGMENT_BYTES), 12).responses[0].partitions[0]
            assert late.error_code == error_codes.OFFSET_OUT_OF_RANGE
    finally:
        node.stop()


class Crowded(RealDisk):
    """A disk of a process that could not open a directory a while ago."""

    refusals = 2

    def synchronize_directory(self, path: str) -> None:
        if path.endswith("t-0") and self.refusals:
            self.refusals -= 1
            raise DescriptorsExhausted(errno.EMFILE, "Too many open files", path)
        super().synchronize_directory(path)


def test_a_flush_without_a_descriptor_is_done_when_there_is_one(tmp_path: Path) -> None:
    disk = Crowded(Descriptors(512))
    node = RunningNode({"log.dirs": str(tmp_path), "log.flush.interval.ms": "50"}, disk)
    try:
        with RawClient(node.port) as client:
            create(client, "t")
            assert produce(client, "t", b"v") == error_codes.NONE
            log = replica_of(node, "t").log
            assert log is not None
            eventually(lambda: log.recovery_point == 1)
            assert disk.refusals == 0
            assert produce(client, "t", b"v") == error_codes.NONE
    finally:
        node.stop()


class SlowDirectories(RealDisk):
    """A disk on which flushes of the logs of ``busy`` stand still until they may go on."""

    def __init__(self) -> None:
        super().__init__(Descriptors(512))
        self.may_go_on = threading.Event()
        self.standing: list[str] = []

    def synchronize_directory(self, path: str) -> None:
        if Path(path).name.startswith("busy-") and not self.may_go_on.is_set():
            self.standing.append(path)
            self.may_go_on.wait(60)
        super().synchronize_directory(path)


def test_neither_cold_reads_nor_new_topics_queue_behind_the_flushes_of_logs(tmp_path: Path) -> None:
    disk = SlowDirectories()
    node = RunningNode({"log.dirs": str(tmp_path), "log.flush.interval.ms": "50"}, disk)
    try:
        with RawClient(node.port) as client:
            create(client, "busy", FLUSHES_AT_ONCE)
            small_segments(client, "cold", **{"retention.ms": "-1", "flush.ms": "200000"})
            produce_old(client, "cold")
            produce_old(client, "cold")
            batch = build_batch([Record(timestamp=OLD_MS, value=b"v")])
            parts = [PartitionProduceData(index=each, records=batch) for each in range(FLUSHES_AT_ONCE)]
            data = TopicProduceData(name="busy", partition_data=parts)
            client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9)
            eventually(lambda: len(disk.standing) == FLUSHES_AT_ONCE)
            # The first segment is checked in a thread before it is sent for the first time.
            answer = client.call(fetch_of("cold", 0, SEGMENT_BYTES), 12).responses[0].partitions[0]
            assert [record.value for record in read_records(answer.records)] == [OLD_VALUE]
            create(client, "new")
            assert len(disk.standing) == FLUSHES_AT_ONCE
            assert not disk.may_go_on.is_set()
    finally:
        disk.may_go_on.set()
        node.stop()


def test_a_sealed_segment_is_flushed_at_the_roll_and_not_later(tmp_path: Path) -> None:
    node = start(tmp_path)
    try:
        with RawClient(node.port) as client:
            small_segments(client, "quiet", **{"retention.ms": "-1"})
            produce_old(client, "quiet")
            produce_old(client, "quiet")  # begins the second segment, and nothing follows
            log = replica_of(node, "quiet").log
            assert log is not None
            assert len(log.segments) == 2
            eventually(lambda: log.recovery_point >= 1)
    finally:
        node.stop()


def test_a_roll_that_finds_a_flush_under_way_is_flushed_behind_it(tmp_path: Path) -> None:
    node = start(tmp_path)
    try:
        with RawClient(node.port) as client:
            small_segments(client, "quiet", **{"retention.ms": "-1"})
            produce_old(client, "quiet")
            log = replica_of(node, "quiet").log
            assert log is not None
            under_way = node.call(log.begin_flush)
            produce_old(client, "quiet")
            assert log in log.directory.rolled
            sleep(0.3)  # the upkeep looks a few times
            node.call(lambda: (under_way.run(), log.finish_flush(under_way)))
            eventually(lambda: log.recovery_point == 2)
            assert not log.directory.rolled
    finally:
        node.stop()


@pytest.mark.parametrize("is_rolled", [False, True])
def test_unflushed_records_of_a_killed_process_are_flushed_in_time_in_unused_logs(
    tmp_path: Path, is_rolled: bool
) -> None:
    node = start(tmp_path)
    with RawClient(node.port) as client:
        small_segments(client, "quiet", **{"retention.ms": "-1", "flush.ms": "200000"})
        produce_old(client, "quiet")
        log = replica_of(node, "quiet").log
        assert log is not None
        if is_rolled:  # and died before the flush that belongs to it
            node.call(lambda: (log.roll(OLD_MS), log.directory.rolled.clear()))
        assert log.recovery_point == 0
    node.call_async(node.node.abandon)
    node.loop.call_soon_threadsafe(node.loop.stop)
    node.thread.join(60)
    node.loop.close()
    node = RunningNode({"log.dirs": str(tmp_path)})
    try:
        assert replica_of(node, "quiet").log is None

        def is_flushed() -> bool:
            found = replica_of(node, "quiet").log
            return found is not None and found.recovery_point == 1

        eventually(lambda: replica_of(node, "quiet").log is not None)
        assert not is_flushed()
        assert node.node.broker is not None
        upkeep = node.node.broker.upkeep

        def later() -> None:
            for found in upkeep._dirty_since_ms:
                upkeep._dirty_since_ms[found] -= 200_000

        node.call(later)
        eventually(is_flushed)
    finally:
        node.stop()
