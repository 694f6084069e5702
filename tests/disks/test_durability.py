"""The promises of a whole broker survive, wherever its disk is cut: the cells of docs/durability.md.

A real workload is recorded once: topics, records, group offsets, transactions, deletions. Then the record of writes and
syncs is cut at many points, the broker starts on what is left, and everything promised by then has to be there. After
the death of the machine writes that were not synced are lost, in part or in any selection.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from recording_disk import Entry, RecordingDisk, cut
from running_node import RunningNode

from kpystorage.sim_disk import SimDisk
from kpywire import error_codes
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.record import Record, build_batch, read_records
from support.group_requests import commit, coordinator_ready, offsets
from support.raw_client import RawClient
from support.raw_requests import (
    SET,
    TOPIC,
    configs_set,
    create,
    deletion,
    incremental_alteration,
    metadata_of,
    produce,
    wait_until_gone,
)
from support.raw_transactions import Transactional, committed_values, find_coordinator
from support.waiting import eventually

pytestmark = pytest.mark.slow
ROUNDS = 4
SETTINGS = {
    "log.dirs": "/data",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
FLUSHED = {**SETTINGS, "log.flush.interval.messages": "1"}
"""Nothing is acknowledged before it is synced."""


def recorded(settings: dict[str, str]) -> list[Entry]:
    """The workload, on a broker with these settings."""
    disk = RecordingDisk()
    node = RunningNode(settings, disk)  # type: ignore[arg-type]
    try:
        with RawClient(node.port) as client:
            work(client, disk)
    finally:
        node.stop()
    return disk.entries


def work(client: RawClient, disk: RecordingDisk) -> None:
    for name in ("plain", "exact", "cut"):
        create(client, name)
        disk.promise("topic", name)
    coordinator_ready(client)
    find_coordinator(client, "exactly")
    transactional = Transactional(client, "exactly")
    assert transactional.init().error_code == error_codes.NONE
    for number in range(ROUNDS):
        append(client, disk, "plain", b"p%d" % number)
        append(client, disk, "cut", b"c%d" % number)
        assert commit(client, "g", "plain", (0, number + 1, None)) == {0: error_codes.NONE}
        disk.promise("offset", number + 1)
        value = b"t%d" % number
        assert transactional.add(("exact", 0)) == {error_codes.NONE}
        assert transactional.produce("exact", value).error_code == error_codes.NONE
        assert transactional.end(commit=number % 2 == 0).error_code == error_codes.NONE
        disk.promise("committed" if number % 2 == 0 else "aborted", value)
    delete = DeleteRecordsTopic(name="cut", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    answer = client.call(DeleteRecordsRequest(topics=[delete], timeout_ms=10_000), 2)
    assert answer.topics[0].partitions[0].error_code == error_codes.NONE
    disk.promise("start", 2)
    change = incremental_alteration((TOPIC, "plain", [("retention.ms", SET, "12345678901")]))
    assert client.call(change, 1).responses[0].error_code == error_codes.NONE
    disk.promise("config", "12345678901")
    create(client, "gone")
    produce(client, "gone", batch(b"x"))
    client.call(deletion("gone"), 6)
    disk.promise("deleted", "gone")
    wait_until_gone(client, "gone")
    append(client, disk, "plain", b"last")


def batch(value: bytes) -> bytes:
    return build_batch([Record(timestamp=time.time_ns() // 1_000_000, value=value)])


def append(client: RawClient, disk: RecordingDisk, topic: str, value: bytes) -> None:
    answer = produce(client, topic, batch(value))
    assert answer.error_code == error_codes.NONE
    disk.promise("record", topic, answer.base_offset, value)


# After the cut


def check(disk: SimDisk, settings: dict[str, str], promised: list[Any], wanted: Callable[[Any], bool]) -> None:
    """Start on what is left: all that was promised, as far as it is wanted, holds, and work goes on."""
    node = RunningNode(settings, disk)  # type: ignore[arg-type]
    try:
        with RawClient(node.port) as client:
            for fact in promised:
                if wanted(fact):
                    CHECKS[fact[0]](client, *fact[1:])
            if ("topic", "plain") in promised:
                assert produce(client, "plain", batch(b"on")).error_code == error_codes.NONE
    finally:
        node.stop()


def has_topic(client: RawClient, name: str) -> None:
    assert metadata_of(client, name).error_code == error_codes.NONE


def has_record(client: RawClient, topic: str, offset: int, value: bytes) -> None:
    if offset < log_start(client, topic):
        assert topic == "cut"
        return
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    answer = client.call(request, 12).responses[0].partitions[0]
    assert answer.error_code == error_codes.NONE
    found = {record.offset: record.value for record in read_records(answer.records)}
    assert found.get(offset) == value, f"{topic} has lost {value!r} at {offset}"


def log_start(client: RawClient, topic: str) -> int:
    earliest = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)])
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[earliest]), 6)
    return int(answer.topics[0].partitions[0].offset)


def has_offset(client: RawClient, offset: int) -> None:
    coordinator_ready(client)
    assert offsets(client, "g")["plain"][0][0] >= offset


def is_committed(client: RawClient, value: bytes) -> None:
    found: list[bytes] = []

    def is_there() -> bool:
        found[:] = committed_values(client, "exact")
        return value in found

    eventually(is_there, lambda: f"{value!r}, which was committed, and {found} is there")


def is_aborted(client: RawClient, value: bytes) -> None:
    assert value not in committed_values(client, "exact")


def begins_at(client: RawClient, offset: int) -> None:
    assert log_start(client, "cut") >= offset


def has_config(client: RawClient, value: str) -> None:
    assert configs_set(client, TOPIC, "plain")["retention.ms"] == value


def is_deleted(client: RawClient, name: str) -> None:
    assert metadata_of(client, name).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION


CHECKS: dict[str, Callable[..., None]] = {
    "topic": has_topic,
    "record": has_record,
    "offset": has_offset,
    "committed": is_committed,
    "aborted": is_aborted,
    "start": begins_at,
    "config": has_config,
    "deleted": is_deleted,
}
METADATA = ("topic", "config", "deleted", "start")
"""The changes that are synced before they are acknowledged, whatever the settings."""


def cuts(entries: list[Entry], request: pytest.FixtureRequest) -> list[int]:
    """The number of points that was asked for, spread over the record; its end is one of them."""
    asked = int(request.config.getoption("--durability-cuts"))
    count = min(asked, len(entries)) if asked else len(entries)
    return [len(entries) * (number + 1) // count for number in range(count)]


def test_with_a_flush_for_every_message_the_machine_may_die_at_any_point(request: pytest.FixtureRequest) -> None:
    entries = recorded(FLUSHED)
    for count in cuts(entries, request):
        disk, promised = cut(entries, count, seed=count)
        check(disk.after_power_failure(), FLUSHED, promised, lambda _fact: True)


def test_without_flushes_the_process_may_die_at_any_point(request: pytest.FixtureRequest) -> None:
    entries = recorded(SETTINGS)
    for count in cuts(entries, request):
        disk, promised = cut(entries, count, seed=count)
        check(disk.after_process_death(), SETTINGS, promised, lambda _fact: True)


def test_without_flushes_the_metadata_survive_the_machine_and_the_broker_starts(
    request: pytest.FixtureRequest,
) -> None:
    entries = recorded(SETTINGS)
    for count in cuts(entries, request):
        disk, promised = cut(entries, count, seed=count)
        check(disk.after_power_failure(), SETTINGS, promised, lambda fact: fact[0] in METADATA)
