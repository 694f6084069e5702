"""Groups on a whole node: what its log holds, and what is left of clients that are gone."""

from pathlib import Path

import pytest
from running_node import RunningNode, start
from test_node import create

from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.record import plain_batch, read_records
from support.group_requests import Member, commit, coordinator_ready, describe, joining, offsets, stable_member
from support.raw_client import RawClient
from support.waiting import eventually

TOPIC = "__consumer_offsets"


def open_tickets(node: RunningNode) -> int:
    broker = node.node.broker
    assert broker is not None
    return node.call(lambda: sum(len(each.journal._open_tickets) for each in broker.groups.shards.values()))  # type: ignore[no-any-return]


@pytest.mark.parametrize("codec", range(5))
def test_commits_are_compressed_as_configured_and_found_after_a_restart(tmp_path: Path, codec: int) -> None:
    settings = {"offsets_topic_num_partitions": "1", "offsets_topic_compression_codec": str(codec)}
    node = start(tmp_path, **settings)
    try:
        with RawClient(node.port) as client:
            create(client, "t", partitions=3)
            coordinator_ready(client)
            assert commit(client, "g", "t", (0, 1, "x" * 1000), (2, 7, "")) == {0: 0, 2: 0}
    finally:
        node.stop()
    content = (tmp_path / f"{TOPIC}-0" / f"{0:020d}.log").read_bytes()
    assert content[22] & 7 == codec
    assert len(list(read_records(content))) == 2
    node = start(tmp_path, **settings)
    try:
        with RawClient(node.port) as client:
            coordinator_ready(client)
            assert offsets(client, "g") == {"t": {0: (1, 0, "x" * 1000, 0), 2: (7, 0, "", 0)}}
    finally:
        node.stop()


@pytest.mark.parametrize("codec", [0, 2])
def test_a_large_commit_is_made_in_steps_and_written_as_one_batch(tmp_path: Path, codec: int) -> None:
    settings = {"offsets_topic_num_partitions": "1", "offsets_topic_compression_codec": str(codec)}
    reported = {index: (index + 1, "m" * (index * 9)) for index in range(150)}
    wanted = {"t": {index: (offset, 0, metadata, 0) for index, (offset, metadata) in reported.items()}}
    node = start(tmp_path, **settings)
    try:
        with RawClient(node.port) as client:
            create(client, "t", partitions=len(reported))
            coordinator_ready(client)
            taken = commit(client, "g", "t", *((index, *each) for index, each in reported.items()), (150, 1, "unknown"))
            assert taken == {**dict.fromkeys(reported, 0), 150: error_codes.UNKNOWN_TOPIC_OR_PARTITION}
            assert offsets(client, "g") == wanted
            too_long = (0, 99, "x" * 5_000)
            assert commit(client, "h", "t", too_long, (1, 7, "")) == {0: error_codes.OFFSET_METADATA_TOO_LARGE, 1: 0}
            assert commit(client, "h", "none", (0, 1, "x" * 3_000)) == {0: error_codes.UNKNOWN_TOPIC_OR_PARTITION}
            many = [(index, 1, "x" * 4_000) for index in range(150)] * 2
            refused = dict.fromkeys(reported, error_codes.UNKNOWN_SERVER_ERROR if codec == 0 else 0)
            assert commit(client, "i", "t", *many) == refused
    finally:
        node.stop()
    content = (tmp_path / f"{TOPIC}-0" / f"{0:020d}.log").read_bytes()
    first = next(batch_headers(content))[1]
    assert (first.record_count, first.attributes) == (150, codec)
    records = list(read_records(content[: first.size]))
    if codec == 0:
        pairs = [(record.key or b"", record.value) for record in records]
        assert plain_batch(pairs, 0, first.partition_leader_epoch, first.max_timestamp) == content[: first.size]
    node = start(tmp_path, **settings)
    try:
        with RawClient(node.port) as client:
            coordinator_ready(client)
            assert offsets(client, "g") == wanted
            assert offsets(client, "h") == {"t": {1: (7, 0, "", 0)}}
    finally:
        node.stop()


def test_clients_that_join_and_disconnect_leave_nothing_behind(tmp_path: Path) -> None:
    node = start(tmp_path, offsets_topic_num_partitions="1", group_initial_rebalance_delay_ms="0")
    try:
        with RawClient(node.port) as client:
            coordinator_ready(client)
            stable_member(client, "g", rebalance_ms=100_000, session_ms=100_000)
            member_id = client.call(joining("g"), 9).member_id
            for _ in range(30):
                with RawClient(node.port) as another:
                    another.send(joining("g", member_id, rebalance_ms=100_000, session_ms=100_000), 9)
                    eventually(lambda: describe(client, "g").group_state == "PreparingRebalance")
            eventually(lambda: open_tickets(node) <= 1)
            assert len(describe(client, "g").members) == 2
    finally:
        node.stop()


def test_members_that_wait_hear_of_it_when_the_node_stops(tmp_path: Path) -> None:
    node = start(tmp_path, offsets_topic_num_partitions="1", group_initial_rebalance_delay_ms="60000")
    try:
        with RawClient(node.port) as client, RawClient(node.port) as watcher:
            coordinator_ready(watcher)
            member = Member(client, "g")
            member.begin_join()
            eventually(lambda: describe(watcher, "g").group_state == "PreparingRebalance")
            node.call_async(node.node.stop)
            assert member.end_join().error_code == error_codes.NOT_COORDINATOR
    finally:
        node.loop.call_soon_threadsafe(node.loop.stop)
        node.thread.join(60)
        node.loop.close()


def test_a_damaged_commit_is_left_out_and_the_others_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"offsets_topic_num_partitions": "1"}
    node = start(tmp_path, **settings)
    try:
        with RawClient(node.port) as client:
            create(client, "t", partitions=3)
            coordinator_ready(client)
            for partition in range(3):
                commit(client, "g", "t", (partition, 10 + partition, ""))
    finally:
        node.stop()
    file = tmp_path / f"{TOPIC}-0" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    second = next(record for record in read_records(bytes(content)) if record.offset == 1)
    assert second.key is not None
    content[content.index(second.key) + len(second.key) - 1] ^= 0xFF
    file.write_bytes(content)
    node = start(tmp_path, **settings)
    try:
        with RawClient(node.port) as client:
            coordinator_ready(client)
            assert offsets(client, "g") == {"t": {0: (10, 0, "", 0), 2: (12, 0, "", 0)}}
            assert commit(client, "g", "t", (1, 5, "")) == {1: error_codes.NONE}
    finally:
        node.stop()
    (line,) = [record.message for record in caplog.records if "left out" in record.message]
    assert line.startswith(f"{TOPIC}-0: 1 damaged records were left out, the first is a batch at offset 1")


def test_a_commit_that_fits_into_no_batch_is_refused_and_nothing_else(tmp_path: Path) -> None:
    node = start(tmp_path, offsets_topic_num_partitions="1", offset_metadata_max_bytes="100000")
    try:
        with RawClient(node.port) as client:
            create(client, "t", partitions=50)
            coordinator_ready(client)
            large = [(partition, 1, "x" * 30_000) for partition in range(50)]
            assert set(commit(client, "g", "t", *large).values()) == {error_codes.UNKNOWN_SERVER_ERROR}
            assert offsets(client, "g") == {}
            assert commit(client, "g", "t", *large[:30]) == dict.fromkeys(range(30), error_codes.NONE)
    finally:
        node.stop()
