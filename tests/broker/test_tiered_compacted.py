"""A compacted topic on a whole node with a store: every reader finds the newest value of every key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from running_node import RunningNode, start
from test_tiered_node import EARLIEST, LATEST_TIERED, SETTINGS, border, files, values

from kpywire import error_codes
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.raw_requests import offset_at
from support.raw_transactions import fetch, records_in
from support.waiting import eventually
from tiered.filling import STEP_MS, alter, append, create_tiered, delete_records, time_of

COMPACTED: Final = {
    **SETTINGS,
    "kpybroker_remote_compacted_enable": "true",
    "log_cleaner_backoff_ms": "50",
    "file_delete_delay_ms": "100",
}
KEYS: Final = 5


def start_node(tmp_path: Path) -> RunningNode:
    (tmp_path / "store").mkdir(exist_ok=True)
    return start(tmp_path / "data", kpybroker_remote_store=f"file://{tmp_path / 'store'}", **COMPACTED)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start_node(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def raw(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        yield client


def create_compacted(raw: RawClient, name: str = "t", **configs: str) -> None:
    """A compacted topic of which the disk keeps as little as possible."""
    configs = {"cleanup_policy": "compact", "local_retention_bytes": "1", "delete_retention_ms": "600000", **configs}
    create_tiered(raw, name, min_cleanable_dirty_ratio="0.01", **configs)


def put(raw: RawClient, number: int, key: int, value: bytes | None, topic: str = "t") -> None:
    """A record in a segment of its own."""
    append(raw, topic, build_batch([Record(timestamp=time_of(number), key=b"k%d" % key, value=value)]))


def view(raw: RawClient, topic: str = "t") -> dict[bytes | None, bytes]:
    """The newest value of every key, read from the log start on."""
    found: dict[bytes | None, bytes | None] = {}
    offset, end = offset_at(raw, topic, EARLIEST)[2], offset_at(raw, topic, -1)[2]
    while offset < end:
        answer = fetch(raw, topic, offset, committed=False, max_wait_ms=5_000)
        assert answer.error_code == error_codes.NONE, answer
        records = [each for each in records_in(answer) if each.offset >= offset]
        assert records, f"nothing at {offset}, and the log ends at {end}"
        found |= {each.key: each.value for each in records}
        offset = records[-1].offset + 1
    return {key: value for key, value in found.items() if value is not None}


def until_only_the_end_is_on_disk(raw: RawClient, last: int) -> None:
    eventually(lambda: offset_at(raw, "t", LATEST_TIERED)[2] >= last, "copies of everything that is closed")
    eventually(lambda: border(raw, "t") > last, "a disk without what is copied")


def test_every_reader_finds_the_newest_values_over_store_and_disk(raw: RawClient) -> None:
    create_compacted(raw)
    for number in range(20):
        put(raw, number, number % KEYS, None if number in (11, 17) else b"%d" % number)
    until_only_the_end_is_on_disk(raw, 18)
    expected = {b"k0": b"15", b"k1": b"16", b"k3": b"18", b"k4": b"19"}
    assert view(raw) == expected
    assert offset_at(raw, "t", time_of(12) - STEP_MS // 2)[2] >= 12


def test_a_tombstone_outlives_its_retention_while_the_store_has_older_values(raw: RawClient) -> None:
    create_compacted(raw, delete_retention_ms="0")
    put(raw, 0, 1, b"old")
    put(raw, 1, 2, b"other")
    until_only_the_end_is_on_disk(raw, 0)
    put(raw, 2, 1, None)
    for number in range(3, 12):
        put(raw, number, 3, b"%d" % number)
    until_only_the_end_is_on_disk(raw, 10)
    assert view(raw) == {b"k2": b"other", b"k3": b"11"}


def test_a_topic_without_delete_is_not_deleted_by_time_and_its_records_cannot_be_deleted(raw: RawClient) -> None:
    create_compacted(raw)
    alter(raw, "t", retention_ms="1000", local_retention_ms="1000")
    for number in range(6):
        put(raw, number, number, b"%d" % number)
    until_only_the_end_is_on_disk(raw, 4)
    assert offset_at(raw, "t", EARLIEST)[2] == 0
    assert delete_records(raw, "t", 3)[0] == error_codes.POLICY_VIOLATION
    assert len(values(raw, "t")) == 6


def test_a_topic_with_both_policies_loses_what_is_deleted(raw: RawClient) -> None:
    create_compacted(raw, cleanup_policy="compact,delete")
    for number in range(8):
        put(raw, number, number, b"%d" % number)
    until_only_the_end_is_on_disk(raw, 6)
    assert delete_records(raw, "t", 3) == (error_codes.NONE, 3)
    assert view(raw) == {b"k%d" % number: b"%d" % number for number in range(3, 8)}


def test_a_restarted_node_finds_the_same_view(tmp_path: Path) -> None:
    first = start_node(tmp_path)
    with RawClient(first.port) as raw:
        create_compacted(raw)
        for number in range(12):
            put(raw, number, number % KEYS, b"%d" % number)
        until_only_the_end_is_on_disk(raw, 10)
        before = view(raw)
    first.stop()
    second = start_node(tmp_path)
    try:
        with RawClient(second.port) as raw:
            eventually(lambda: offset_at(raw, "t", EARLIEST)[0] == 0, "the leader")
            assert view(raw) == before == {b"k%d" % (n % KEYS): b"%d" % n for n in range(7, 12)}
    finally:
        second.stop()


def test_segments_in_the_store_are_compacted_and_their_old_objects_deleted(raw: RawClient, tmp_path: Path) -> None:
    create_compacted(raw, delete_retention_ms="0")
    for number in range(30):
        put(raw, number, number % KEYS, None if number % KEYS == 3 else b"%d" % number)
    until_only_the_end_is_on_disk(raw, 28)
    expected = {b"k%d" % (number % KEYS): b"%d" % number for number in range(25, 30) if number % KEYS != 3}
    assert view(raw) == expected
    logs = lambda: files(tmp_path / "store", "*.log")  # noqa: E731
    eventually(lambda: len(logs()) <= 3, "few segments in the store")
    assert view(raw) == expected
    assert len(values(raw, "t")) < 12
    put(raw, 30, 0, b"30")
    put(raw, 31, 3, b"31")
    until_only_the_end_is_on_disk(raw, 30)
    assert view(raw) == expected | {b"k0": b"30", b"k3": b"31"}
    eventually(lambda: not list((tmp_path / "data").glob("*-delete")), "no folder of a pass")
