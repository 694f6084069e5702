"""Commands, scans, leases, epochs and producers of a topic of which the store alone has most."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from running_node import RunningNode, start

from kpybroker.cli import main
from kpybroker.machines.lease_manifest import LeaseRequest
from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.options import ScanOptions, read_options
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.scan import lent_files
from kpybroker.pipeline.scan.borrowing import SecondPort, borrow
from kpybroker.pipeline.scan.connecting import client_of, transport_of
from kpybroker.pipeline.scan.reading import rows
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.raw_client import RawClient
from support.raw_requests import now_ms, offset_at
from support.waiting import eventually
from tiered.filling import BASE_MS, STEP_MS, create_tiered, fill, fill_transactions

EARLIEST_LOCAL = -4
SEGMENTS = 6
RECORDS = 2 * SEGMENTS
SETTINGS = {
    "remote_log_storage_system_enable": "true",
    "remote_log_manager_task_interval_ms": "100",
    "log_retention_check_interval_ms": "100",
    "log_initial_task_delay_ms": "100",
    "transaction_state_log_num_partitions": "1",
    "rlmm_config_remote_log_metadata_topic_num_partitions": "1",
}


def border(raw: RawClient, topic: str) -> int:
    """The first offset on the disk."""
    return offset_at(raw, topic, EARLIEST_LOCAL)[2]


def started(directory: Path) -> RunningNode:
    return start(directory / "data", kpybroker_remote_store=(directory / "store").as_uri(), **SETTINGS)


@contextmanager
def stopping(running: RunningNode) -> Iterator[None]:
    try:
        yield
    finally:
        running.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node whose disk has the last two records of topic ``t`` alone."""
    directory = tmp_path_factory.mktemp("tiered")
    (directory / "store").mkdir()
    running = started(directory)
    with stopping(running), RawClient(running.port) as raw:
        create_tiered(raw, "t", only_remote=True)
        fill(raw, "t", range(SEGMENTS))
        eventually(lambda: border(raw, "t") == RECORDS - 2, "all but the last segment to be gone")
        yield running


def printed(node: RunningNode, *words: str, exit_code: int = 0) -> str:
    """The output of a command."""
    result = CliRunner().invoke(main, [*words, "-b", f"127.0.0.1:{node.port}"], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result.output


def test_consume_reads_from_the_beginning_and_from_any_offset(node: RunningNode) -> None:
    lines = printed(node, "consume", "t", "-o", "start", "-e", "-f", "%o\n").split()
    assert [int(each) for each in lines] == list(range(RECORDS))
    lines = printed(node, "consume", "t", "-o", "5", "-e", "-f", "%o\n").split()
    assert [int(each) for each in lines] == list(range(5, RECORDS))


def test_an_audit_reads_all_records_and_finds_no_damage(node: RunningNode) -> None:
    found = json.loads(printed(node, "audit", "--topic", "t", "--json"))
    assert (found["records"], found["damages"], found["findings"]) == (RECORDS, 0, [])


def test_a_lease_is_refused_below_the_border_and_given_behind_it(node: RunningNode) -> None:
    port = SecondPort(f"http://127.0.0.1:{node.node.http_port}")
    lent = borrow([port], [LeaseRequest("t", 0, RECORDS - 3)], 10_000)
    assert lent.refused == {("t", 0): "OFFSET_MOVED_TO_TIERED_STORAGE: its first records are only in a store"}
    lent.end()
    lent = borrow([port], [LeaseRequest("t", 0, RECORDS - 2)], 10_000)
    assert not lent.refused
    assert [each.base_offset for each in lent.manifests["t", 0].segments] == [RECORDS - 2]
    lent.end()


@pytest.mark.parametrize("transport", ["auto", "fetch"])
def test_a_scan_reads_what_only_the_store_has_by_fetch(
    node: RunningNode, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lent_files, "WORTH_BYTES", 0)
    options = scan_options(node, transport)
    part = whole_topic(node)
    with client_of(options) as client:
        assert lent_files.borrowed(options, client, [part], {}) is None
    reading = transport_of(options)
    found = [row for batch in rows(reading, part, options.wanted) for row in batch.to_pylist()]
    reading.close()
    assert [row["offset"] for row in found] == list(range(RECORDS))


def test_a_scan_of_files_alone_is_refused_in_one_line(node: RunningNode) -> None:
    options = scan_options(node, "files")
    with client_of(options) as client, pytest.raises(ScanError, match=r"transport=files: t-0: .* only in a store"):
        lent_files.borrowed(options, client, [whole_topic(node)], {})


def scan_options(node: RunningNode, transport: str) -> ScanOptions:
    return read_options(
        {
            "kafka.bootstrap.servers": f"127.0.0.1:{node.port}",
            "subscribe": "t",
            "transport": transport,
            "secondPorts": f"http://127.0.0.1:{node.node.http_port}",
        }
    )


def whole_topic(node: RunningNode) -> OffsetRange:
    return OffsetRange("t", node.node.image.topics["t"].id, 0, 0, RECORDS)


def test_the_epoch_of_records_in_the_store_ends_at_the_log_end(node: RunningNode) -> None:
    with RawClient(node.port) as raw:
        wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
        topic = OffsetForLeaderTopic(topic="t", partitions=[wanted])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        answer = raw.call(request, 4).topics[0].partitions[0]
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, RECORDS)


def test_producers_are_known_after_a_restart_though_their_records_are_in_the_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    first = started(tmp_path)
    with stopping(first), RawClient(first.port) as raw:
        create_tiered(raw, "t", only_remote=True)
        fill_transactions(raw, "t", range(3))
        eventually(lambda: border(raw, "t") > 0, "segments that are gone from the disk")
        later = (now_ms() - BASE_MS) // STEP_MS + 10  # behind the transactions, which begin now
        fill(raw, "t", range(later, later + 3))
        end = offset_at(raw, "t", -1)[2]
        eventually(lambda: border(raw, "t") == end - 2, "the transactions to be in the store alone")
        before = producers(raw)
    assert before
    second = started(tmp_path)
    with stopping(second), RawClient(second.port) as raw:
        eventually(lambda: producers(raw) == before, "the same producers")


def producers(raw: RawClient) -> list[tuple[int, int, int]]:
    """The producers of a partition, with epoch and last sequence."""
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (answer,) = raw.call(request, 0).topics[0].partitions
    return sorted((each.producer_id, each.producer_epoch, each.last_sequence) for each in answer.active_producers)
