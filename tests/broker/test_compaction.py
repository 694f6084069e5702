"""The broker compacts what it leads beside its loop; what happens to log, cleaner or broker meanwhile harms nobody."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running_node import RunningNode, start
from test_node import produce

from kpybroker.hosts.replicas import compaction
from kpybroker.hosts.replicas.compaction import Compaction
from kpystorage.log import Log
from kpywire import error_codes
from kpywire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient
from support.waiting import eventually

VALUE_BYTES = 300_000
"""Three records fill a segment."""
FAST = {"log.cleaner.backoff.ms": "20"}
SLOW = {**FAST, "log.cleaner.io.max.bytes.per.second": "3000000"}
TOPIC_RESOURCE = 2


def patiently(condition: Callable[[], bool]) -> None:
    """Wait for what a cleaner does: it has a low priority, so it may have to wait on a busy machine."""
    eventually(condition, within_s=150)


def create_compacted(client: RawClient, name: str = "c", **configs: str) -> None:
    wanted = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}
    wanted |= {key.replace("_", "."): value for key, value in configs.items()}
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in wanted.items()],
    )  # fmt: skip
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)
    assert answer.topics[0].error_code == error_codes.NONE


def write(client: RawClient, count: int, topic: str = "c") -> None:
    """Records with three keys, whose values begin with their numbers."""
    for number in range(count):
        value = f"{number} ".encode().ljust(VALUE_BYTES, b".")
        batch = build_batch([Record(timestamp=1_700_000_000_000 + number, key=b"%d" % (number % 3), value=value)])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        answer = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9)
        assert answer.responses[0].partition_responses[0].error_code == error_codes.NONE


def read(client: RawClient, topic: str = "c") -> list[int]:
    """The numbers of all records."""
    numbers: list[int] = []
    offset = 0
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=4 << 20)
        fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
        answer = client.call(fetch, 12).responses[0].partitions[0]
        assert answer.error_code == error_codes.NONE
        records = [record for record in read_records(answer.records or b"") if record.offset >= offset]
        if not records:
            return numbers
        numbers += [int((record.value or b"").split()[0]) for record in records]
        offset = records[-1].offset + 1


def log_of(node: RunningNode, topic: str = "c") -> Log:
    assert node.node.broker is not None
    found = node.node.broker.replicas.directories.find(topic, 0)
    assert found is not None
    return found


def compaction_of(node: RunningNode) -> Compaction:
    assert node.node.broker is not None
    return node.node.broker.compaction


def is_compacting(node: RunningNode, topic: str = "c") -> bool:
    return log_of(node, topic).stop_compacting is not None


def checkpointed(directory: Path) -> str:
    path = directory / "cleaner-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def test_a_log_is_compacted_its_checkpoint_is_kafkas_and_holds_over_a_restart(tmp_path: Path) -> None:
    node = start(tmp_path, **{key.replace(".", "_"): value for key, value in FAST.items()})
    try:
        with RawClient(node.port) as client:
            create_compacted(client)
            write(client, 13)
            patiently(lambda: checkpointed(tmp_path) == "0\n1\nc 0 12\n")
            assert read(client) == [9, 10, 11, 12]
            figures = compaction_of(node).figures
            assert figures.last_passes[0].messages_read >= figures.last_passes[0].messages_written >= 3
    finally:
        node.stop()
    node = start(tmp_path)
    try:
        with RawClient(node.port) as client:
            assert read(client) == [9, 10, 11, 12]
            assert log_of(node).directory.cleaner_offsets == {("c", 0): 12}
    finally:
        node.stop()


def test_only_logs_with_something_to_compact_are_opened_to_look_at_them(tmp_path: Path) -> None:
    node = start(tmp_path, log_cleaner_enable="false")
    try:
        with RawClient(node.port) as client:
            create_compacted(client, "short")
            create_compacted(client, "long")
            write(client, 2, "short")
            write(client, 10, "long")
            assert len(read(client, "long")) == 10
    finally:
        node.stop()
    node = RunningNode({"log.dirs": str(tmp_path), **FAST})
    try:
        patiently(lambda: "long 0 9" in checkpointed(tmp_path))
        assert log_of(node, "long").is_open
        assert not log_of(node, "short").is_open
    finally:
        node.stop()
    node = RunningNode({"log.dirs": str(tmp_path), **FAST})
    try:
        looked_ms = compaction_of(node).figures.last_run_ms
        patiently(lambda: compaction_of(node).figures.last_run_ms > looked_ms)
        assert not log_of(node, "long").is_open
    finally:
        node.stop()


def test_a_topic_that_is_deleted_while_it_is_compacted_is_gone_without_a_rest(tmp_path: Path) -> None:
    node = RunningNode({"log.dirs": str(tmp_path), **SLOW, "log.segment.delete.delay.ms": "0"})
    try:
        with RawClient(node.port) as client:
            create_compacted(client, file_delete_delay_ms="0")
            write(client, 16)
            patiently(lambda: is_compacting(node))
            deleted = client.call(DeleteTopicsRequest(topic_names=["c"], timeout_ms=10_000), 5)
            assert deleted.responses[0].error_code == error_codes.NONE
            patiently(lambda: not list(tmp_path.glob("c-0*")))
            create_compacted(client)
            write(client, 13)
            patiently(lambda: "c 0 12" in checkpointed(tmp_path))
            assert read(client) == [9, 10, 11, 12]
            assert not compaction_of(node).uncleanable
    finally:
        node.stop()


def test_a_topic_that_is_no_longer_compacted_keeps_what_it_has(tmp_path: Path) -> None:
    node = RunningNode({"log.dirs": str(tmp_path), **SLOW})
    try:
        with RawClient(node.port) as client:
            create_compacted(client)
            write(client, 16)
            patiently(lambda: is_compacting(node))
            change = AlterableConfig(name="cleanup.policy", value="delete")
            resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="c", configs=[change])
            answer = client.call(AlterConfigsRequest(resources=[resource], validate_only=False), 2)
            assert answer.responses[0].error_code == error_codes.NONE
            patiently(lambda: not is_compacting(node) and not list((tmp_path / "c-0").glob("*.cleaned")))
            left = read(client)
            assert left[-4:] == [12, 13, 14, 15]
            assert not checkpointed(tmp_path)
    finally:
        node.stop()


def test_a_damaged_log_is_left_alone_with_one_line_and_the_broker_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    node = start(tmp_path, log_cleaner_enable="false")
    try:
        with RawClient(node.port) as client:
            create_compacted(client, "bad")
            create_compacted(client, "good")
            write(client, 10, "bad")
            write(client, 10, "good")
    finally:
        node.stop()
    with (tmp_path / "bad-0" / f"{0:020d}.log").open("r+b") as file:
        file.seek(8)
        file.write(b"\xff\xff\xff\xf0")  # the length of the first batch
    node = RunningNode({"log.dirs": str(tmp_path), **FAST})
    try:
        patiently(lambda: "good 0 9" in checkpointed(tmp_path) and bool(compaction_of(node).uncleanable))
        lines = [record.getMessage() for record in caplog.records if "cannot be compacted" in record.getMessage()]
        assert len(lines) == 1
        assert lines[0].startswith("bad-0 cannot be compacted and is left as it is from now on: ")
        assert not list((tmp_path / "bad-0").glob("*.cleaned"))
        with RawClient(node.port) as client:
            assert produce(client, "good", b"no key") == error_codes.INVALID_RECORD
            write(client, 1, "bad")
    finally:
        node.stop()


def worker_of(parent: int) -> int | None:
    """The process id of a broker's cleaner."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"kpystorage.compaction" in words and b"%d" % parent in words:
            return int(path.name)
    return None


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_killed_cleaner_delays_the_compaction_of_its_log_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "AGAIN_AFTER_MS", 3_000)
    caplog.set_level(logging.WARNING)
    node = RunningNode({"log.dirs": str(tmp_path), **SLOW})
    try:
        with RawClient(node.port) as client:
            create_compacted(client)
            write(client, 16)
            patiently(lambda: bool(list((tmp_path / "c-0").glob("*.cleaned"))))
            worker = worker_of(os.getpid())
            assert worker is not None
            os.kill(worker, signal.SIGKILL)
            patiently(lambda: bool(compaction_of(node).uncleanable))
            assert "for 10 minutes: the cleaner died: its process ended with signal 9" in caplog.text
            assert read(client)[-4:] == [12, 13, 14, 15]
            create_compacted(client, "other")
            write(client, 7, "other")
            patiently(lambda: "other 0 6" in checkpointed(tmp_path))
            patiently(lambda: "c 0 15" in checkpointed(tmp_path))
            assert read(client) == [12, 13, 14, 15]
    finally:
        node.stop()


BROKER = f"""
import sys, time
sys.path[:0] = sys.argv[2:]
from running_node import RunningNode
node = RunningNode({{"log.dirs": sys.argv[1], **{SLOW!r}}})
print(node.port, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_cleaner_ends_with_its_broker_even_if_that_is_killed(tmp_path: Path) -> None:
    with (
        subprocess.Popen(
            [
                sys.executable, "-c",
                BROKER,
                str(tmp_path), *[path for path in sys.path if path],
            ],
            stdout=subprocess.PIPE,
        ) as broker
    ):  # fmt: skip
        try:
            assert broker.stdout is not None
            with RawClient(int(broker.stdout.readline())) as client:
                create_compacted(client)
                write(client, 16)
                patiently(lambda: bool(list((tmp_path / "c-0").glob("*.cleaned"))))
                worker = worker_of(broker.pid)
                assert worker is not None
        finally:
            broker.kill()
    patiently(lambda: not Path(f"/proc/{worker}/cmdline").exists() or not Path(f"/proc/{worker}/cmdline").read_bytes())
    node = RunningNode({"log.dirs": str(tmp_path), **FAST})
    try:
        patiently(lambda: "c 0 15" in checkpointed(tmp_path))
        with RawClient(node.port) as client:
            assert read(client) == [12, 13, 14, 15]
    finally:
        node.stop()
