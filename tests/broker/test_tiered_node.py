"""Tiered storage on a whole node, with a directory as its store: whatever clients ask for is read from there."""

import os
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from running_node import RunningNode, start

from kpybroker.hosts.remote_log.led_tier import LedTier
from kpybroker.machines.remote_log import lineage
from kpywire import error_codes
from kpywire.batch import parse_header
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient
from support.raw_requests import SET, create, deletion, incremental_alteration, now_ms, offset_at
from support.raw_transactions import Transactional, fetch, find_coordinator, produce_records, records_in
from support.share_group_requests import acquiring, sharing
from support.waiting import eventually
from tiered.filling import BASE_MS, STEP_MS, alter, create_tiered, delete_records, fill, fill_transactions, time_of

EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -2, -4, -5, -6
SETTINGS = {
    "remote_log_storage_system_enable": "true",
    "remote_log_manager_task_interval_ms": "100",
    "log_retention_check_interval_ms": "100",
    "log_initial_task_delay_ms": "100",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "1",
    "rlmm_config_remote_log_metadata_topic_num_partitions": "3",
}
ON_DISK_ALONE = {"local_retention_bytes": "1"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    found = tmp_path / "store"
    found.mkdir()
    return found


def start_node(tmp_path: Path, store: Path, **settings: str) -> RunningNode:
    return start(tmp_path / "data", kpybroker_remote_store=f"file://{store}", **{**SETTINGS, **settings})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The log directory of the node."""
    return tmp_path / "data"


@pytest.fixture
def node(tmp_path: Path, store: Path) -> Iterator[RunningNode]:
    running = start_node(tmp_path, store)
    yield running
    running.stop()


@pytest.fixture
def raw(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        yield client


def files(store: Path, pattern: str = "*") -> list[Path]:
    """The files in the store, whose directories may go meanwhile."""
    found = [Path(at, name) for at, _, names in os.walk(store) for name in names]
    return [each for each in found if fnmatch(each.name, pattern)]


def border(raw: RawClient, topic: str, partition: int = 0) -> int:
    """The first offset on the disk."""
    return offset_at(raw, topic, EARLIEST_LOCAL, partition=partition)[2]


def until_tiered(raw: RawClient, data: Path, topic: str = "t", partitions: int = 1) -> None:
    """Wait until the disk has the active segments alone."""
    for index in range(partitions):
        eventually(
            lambda index=index: (
                len(list((data / f"{topic}-{index}").glob("*.log"))) == 1
                and border(raw, topic, index) == offset_at(raw, topic, EARLIEST_PENDING_UPLOAD, partition=index)[2] > 0
            ),
            f"{topic}-{index} in the store",
        )


def values(raw: RawClient, topic: str, *, committed: bool = False, partition: int = 0) -> list[bytes | None]:
    """All values of a partition, from the earliest offset on."""
    offset, end = (offset_at(raw, topic, each, partition=partition)[2] for each in (EARLIEST, -1))
    found: list[bytes | None] = []
    while offset < end:
        answer = fetch(raw, topic, offset, committed=committed, partition=partition, max_wait_ms=5_000)
        assert answer.error_code == error_codes.NONE, answer
        data = bytes(answer.records or b"")
        if not data:
            assert committed
            break
        records = [each for each in records_in(answer) if each.offset >= offset]
        found += [each.value for each in records]
        position = 0
        while position < len(data):
            header = parse_header(data, position)
            offset, position = header.next_offset, position + header.size
    return found


def test_records_that_only_the_store_has_are_read_in_order(raw: RawClient, data: Path) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(8))
    until_tiered(raw, data)
    assert border(raw, "t") == 14
    found = values(raw, "t")
    assert [int(value.split(b":")[0]) for value in found if value] == [each // 2 for each in range(16)]


def test_records_are_found_by_time_in_the_store_and_on_the_disk(raw: RawClient, data: Path) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(6))
    until_tiered(raw, data)
    for number in range(6):
        assert offset_at(raw, "t", time_of(number)) == (0, time_of(number), 2 * number, 0)
        assert offset_at(raw, "t", time_of(number) - STEP_MS // 2)[2] == 2 * number
    assert offset_at(raw, "t", time_of(6))[2] == -1


def test_a_new_leader_refuses_reads_until_it_knows_the_copied_segments(
    raw: RawClient, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(3))
    until_tiered(raw, data)
    with monkeypatch.context() as patched:
        patched.setattr(LedTier, "is_begun", False)
        patched.setattr(lineage, "segment_for", lambda *_: None)
        assert offset_at(raw, "t", time_of(0))[0] == error_codes.KAFKA_STORAGE_ERROR
        assert fetch(raw, "t", 0, committed=False).error_code == error_codes.KAFKA_STORAGE_ERROR
    assert offset_at(raw, "t", time_of(0))[2] == 0
    assert records_in(fetch(raw, "t", 0, committed=False, max_wait_ms=5_000))


def test_aborted_transactions_are_known_to_readers_of_the_store(raw: RawClient, data: Path) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    find_coordinator(raw, "t-0-0")
    fill_transactions(raw, "t", range(6))
    until_tiered(raw, data)
    first = fetch(raw, "t", 5, committed=True, max_wait_ms=5_000)
    assert first.aborted_transactions is not None
    everything = [fetch(raw, "t", offset, committed=True, max_wait_ms=5_000) for offset in range(border(raw, "t"))]
    aborted = {each.first_offset for answer in everything for each in answer.aborted_transactions or ()}
    ended = [number for number in range(6) if number % 3 == 1]
    assert len(aborted) == len(ended)


def test_aborted_transactions_are_known_where_the_log_starts_within_their_segment(raw: RawClient, data: Path) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(1))
    find_coordinator(raw, "aborting")
    producer = Transactional(raw, "aborting")
    assert producer.init().error_code == error_codes.NONE
    assert producer.add(("t", 0)) == {error_codes.NONE}
    records = build_batch(
        [Record(timestamp=BASE_MS, value=b"aborted")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    assert produce_records(raw, "t", records, "aborting").error_code == error_codes.NONE
    assert producer.end(commit=False).error_code == error_codes.NONE
    later = (now_ms() - BASE_MS) // STEP_MS + 1
    fill(raw, "t", range(later, later + 3))
    until_tiered(raw, data)
    assert delete_records(raw, "t", 1) == (error_codes.NONE, 1)
    answer = fetch(raw, "t", 1, committed=True, max_wait_ms=5_000)
    assert [each.first_offset for each in answer.aborted_transactions or ()] == [2]


def test_many_partitions_are_read_from_the_store_by_one_request(raw: RawClient, data: Path) -> None:
    count = 30
    create_tiered(raw, "t", count, **ON_DISK_ALONE)
    for index in range(count):
        fill(raw, "t", range(3), index)
    until_tiered(raw, data, "t", count)
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(count)]
    request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic="t", partitions=wanted)])

    def read() -> int:
        return sum(1 for each in raw.call(request, 12).responses[0].partitions if each.records)

    eventually(lambda: read() == count, "records of all partitions in one answer")


def test_partitions_beyond_the_reads_that_may_wait_are_read_as_soon_as_others_are(
    tmp_path: Path, store: Path, data: Path
) -> None:
    count = 6
    node = start_node(tmp_path, store, remote_log_reader_max_pending_tasks="2")
    with RawClient(node.port) as raw:
        create_tiered(raw, "t", count, **ON_DISK_ALONE)
        for index in range(count):
            fill(raw, "t", range(2), index)
        until_tiered(raw, data, "t", count)
        wanted = [FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=1 << 20) for each in range(count)]
        request = FetchRequest(
            max_wait_ms=100, min_bytes=1, session_epoch=0, topics=[FetchTopic(topic="t", partitions=wanted)]
        )
        answer = raw.call(request, 12)
        missing = set(range(count))

        def is_read() -> bool:
            nonlocal answer
            for topic in answer.responses:
                missing.difference_update(each.partition_index for each in topic.partitions if each.records)
            request.session_id, request.topics = answer.session_id, []
            request.session_epoch += 1
            answer = raw.call(request, 12)
            return not missing

        eventually(is_read, lambda: f"records of all partitions, without {missing}")
    node.stop()


def test_a_share_group_reads_from_the_store(raw: RawClient, data: Path) -> None:
    topic_id = create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(4))
    until_tiered(raw, data)
    raw.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    raw.call(incremental_alteration((32, "g", [("share.auto.offset.reset", SET, "earliest")])), 1)
    eventually(lambda: raw.call(sharing("g", "m", 0, ["t"]), 1).error_code == 0, "the coordinator")
    eventually(lambda: raw.call(sharing("g", "m", 0, ["t"]), 1).assignment.topic_partitions, "an assignment")
    epoch = 0
    found: list[Any] = []

    def acquired() -> bool:
        nonlocal epoch
        request = acquiring("g", "m", epoch, *([topic_id] if epoch == 0 else []), max_records=100, batch_size=100)
        answer = raw.call(request, 2)
        assert answer.error_code == 0, answer
        epoch += 1
        for each in answer.responses:
            for partition in each.partitions:
                found.extend(record.value for record in read_records(bytes(partition.records or b"")))
        return len(found) >= 8

    eventually(acquired, "all records for the share group")
    assert [int(value.split(b":")[0]) for value in found] == [each // 2 for each in range(8)]


def test_records_deleted_up_to_an_offset_in_the_store_are_gone(raw: RawClient, store: Path, data: Path) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(6))
    until_tiered(raw, data)
    before = len(files(store, "*.log"))
    assert delete_records(raw, "t", 5) == (error_codes.NONE, 5)
    assert offset_at(raw, "t", EARLIEST)[2] == 5
    assert fetch(raw, "t", 4, committed=False).error_code == error_codes.OFFSET_OUT_OF_RANGE
    assert len(values(raw, "t")) == 7
    eventually(lambda: len(files(store, "*.log")) == before - 2, "the first two segments to be gone")


def test_expired_segments_leave_the_store_and_the_log_start_moves(raw: RawClient, store: Path, data: Path) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(6))
    until_tiered(raw, data)
    alter(raw, "t", retention_ms="1")
    eventually(lambda: offset_at(raw, "t", EARLIEST)[2] >= 10, "the log start to move")
    eventually(lambda: not files(store, "00000000000000000000-*"), "the first segment to be gone")


def test_the_store_is_empty_after_the_topic_is_deleted(raw: RawClient, store: Path, data: Path) -> None:
    create_tiered(raw, "t", 2, **ON_DISK_ALONE)
    for index in range(2):
        fill(raw, "t", range(4), index)
    until_tiered(raw, data, "t", 2)
    assert files(store, "*.rsm-manifest")
    raw.call(deletion("t"), 6)
    eventually(lambda: not files(store), "an empty store")


def test_producers_go_on_while_the_store_is_away_and_nothing_is_deleted_from_the_disk(
    raw: RawClient, store: Path, tmp_path: Path, data: Path
) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(3))
    until_tiered(raw, data)
    start_before = border(raw, "t")
    shutil.move(store, tmp_path / "away")
    fill(raw, "t", range(3, 8))
    answer = fetch(raw, "t", 0, committed=False, max_wait_ms=2_000)
    assert answer.error_code in (error_codes.NONE, error_codes.KAFKA_STORAGE_ERROR)
    assert border(raw, "t") == start_before
    assert fetch(raw, "t", start_before, committed=False).records
    shutil.move(tmp_path / "away", store)
    until_tiered(raw, data)
    eventually(lambda: fetch(raw, "t", 0, committed=False, max_wait_ms=2_000).error_code == 0, "the store again")
    assert len(values(raw, "t")) == 16


def test_a_restarted_node_serves_segments_that_were_copied_before(tmp_path: Path, store: Path, data: Path) -> None:
    first = start_node(tmp_path, store)
    with RawClient(first.port) as raw:
        create_tiered(raw, "t", **ON_DISK_ALONE)
        fill(raw, "t", range(6))
        until_tiered(raw, data)
        before = values(raw, "t")
    first.stop()
    objects = {each: each.stat().st_mtime_ns for each in files(store, "*.log")}
    second = start_node(tmp_path, store)
    try:
        with RawClient(second.port) as raw:
            eventually(lambda: offset_at(raw, "t", EARLIEST)[0] == 0, "the leader")
            assert values(raw, "t") == before
            until_tiered(raw, data)
    finally:
        second.stop()
    assert objects.items() <= {each: each.stat().st_mtime_ns for each in files(store, "*.log")}.items()


def test_a_topic_without_copies_any_more_is_read_from_the_store_still(raw: RawClient, store: Path) -> None:
    create_tiered(raw, "t")
    fill(raw, "t", range(4))
    eventually(lambda: offset_at(raw, "t", LATEST_TIERED)[2] == 5, "three copies")
    alter(raw, "t", remote_log_copy_disable="true")
    before = len(files(store, "*.log"))
    fill(raw, "t", range(4, 8))
    assert len(values(raw, "t")) == 16
    assert offset_at(raw, "t", LATEST_TIERED)[2] == 5
    assert len(files(store, "*.log")) == before


def test_a_topic_that_is_no_longer_tiered_begins_on_the_disk(raw: RawClient, store: Path, data: Path) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    fill(raw, "t", range(4))
    until_tiered(raw, data)
    start_on_disk = border(raw, "t")
    alter(raw, "t", remote_storage_enable="false", remote_log_delete_on_disable="true")
    eventually(lambda: offset_at(raw, "t", EARLIEST)[2] == start_on_disk, "the log start on the disk")
    eventually(lambda: not files(store), "an empty store")
    fill(raw, "t", range(4, 6))
    assert len(values(raw, "t")) == 6


def test_an_open_transaction_is_named_as_the_reason_why_copies_wait(
    node: RunningNode, raw: RawClient, data: Path
) -> None:
    create_tiered(raw, "t", **ON_DISK_ALONE)
    find_coordinator(raw, "open")
    producer = Transactional(raw, "open")
    assert producer.init().error_code == error_codes.NONE
    assert producer.add(("t", 0)) == {error_codes.NONE}
    batch = producer.batch("t", b"a")
    assert produce_records(raw, "t", batch, "open").error_code == error_codes.NONE
    later = (now_ms() - BASE_MS) // STEP_MS + 1
    fill(raw, "t", range(later, later + 3))
    broker: Any = node.node.broker

    def reason() -> str:
        return node.call(lambda: "".join(each.reason for each in broker.remote_log.states() if each.topic == "t"))

    words = f"waits for the transaction of producer {producer.producer_id} since offset 0"
    eventually(lambda: reason() == words, "the reason")
    assert offset_at(raw, "t", LATEST_TIERED)[2] == -1
    assert producer.end(commit=True).error_code == error_codes.NONE
    until_tiered(raw, data)


def test_an_untiered_topic_has_no_offsets_in_the_store(raw: RawClient) -> None:
    create(raw, "plain")
    fill(raw, "plain", range(2))
    assert offset_at(raw, "plain", LATEST_TIERED) == (0, -1, -1, -1)
    assert offset_at(raw, "plain", EARLIEST_PENDING_UPLOAD) == (0, -1, -1, -1)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="__remote_log_metadata")])
    assert raw.call(asked, 12).topics[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
