"""A node with thousands of partitions, few of whose files may be open."""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient

OPEN_FILES = 1024
PARTITIONS = 5000
AT_ONCE = 500
START = "from kpybroker.cli import main; main()"


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory on a file system in memory where there is one: 20 000 files are a burden to a disk."""
    place = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="kpybroker-", dir=place if os.access(place, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


@contextmanager
def limited_node(path: Path) -> Iterator[int]:
    """The port of a node that has a limit of open files; stopped cleanly."""
    command = [sys.executable, "-c", START, "start", "--data", str(path), "--listen", "127.0.0.1:0", "--http", "off"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES)),
    )
    assert process.stdout is not None
    try:
        lines = iter(process.stdout.readline, "")
        serves = next(line for line in lines if "kpybroker serves" in line)
        yield int(re.findall(r":(\d+),", serves)[0])
        process.terminate()
        rest = process.stdout.read()
        assert process.wait(60) == 0, rest
        assert "ERROR" not in rest
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def produce_everywhere(client: RawClient, value: bytes) -> None:
    batch = build_batch([Record(timestamp=0, value=value)])
    for first in range(0, PARTITIONS, AT_ONCE):
        data = [PartitionProduceData(index=first + number, records=batch) for number in range(AT_ONCE)]
        topics = [TopicProduceData(name="many", partition_data=data)]
        (answered,) = client.call(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), 9).responses
        assert {answer.error_code for answer in answered.partition_responses} == {error_codes.NONE}


def read_everywhere(client: RawClient) -> dict[int, list[bytes | None]]:
    """The values in every partition, by a session that goes on where answers were full."""
    values: dict[int, list[bytes | None]] = {}
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(PARTITIONS)
    ]
    session_id = session_epoch = 0
    while len(values) < PARTITIONS:
        topics = [FetchTopic(topic="many", partitions=wanted)]
        fetch = FetchRequest(
            max_wait_ms=1000, min_bytes=1, session_id=session_id, session_epoch=session_epoch, topics=topics
        )
        answer = client.call(fetch, 12)
        assert answer.error_code == error_codes.NONE
        session_id, session_epoch = answer.session_id, session_epoch + 1
        wanted = []
        for partition in answer.responses[0].partitions:
            if partition.records:
                records = list(read_records(partition.records))
                values[partition.partition_index] = [record.value for record in records]
                following = records[-1].offset + 1
                wanted.append(
                    FetchPartition(
                        partition=partition.partition_index, fetch_offset=following, partition_max_bytes=1 << 20
                    )
                )
    return values


@pytest.mark.slow
def test_five_thousand_partitions_are_written_and_read_under_a_limit_of_1024_open_files(memory_path: Path) -> None:
    topic = CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
    with limited_node(memory_path) as port, RawClient(port) as client:
        created = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000, validate_only=False), 7)
        assert created.topics[0].error_code == error_codes.NONE
        produce_everywhere(client, b"first")
        assert read_everywhere(client) == {index: [b"first"] for index in range(PARTITIONS)}
    with limited_node(memory_path) as port, RawClient(port) as client:
        produce_everywhere(client, b"second")
        assert read_everywhere(client) == {index: [b"first", b"second"] for index in range(PARTITIONS)}
