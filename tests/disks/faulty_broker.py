"""A broker as a process of its own whose system calls on some files fail, or whose directory is a very small disk."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kpywire import error_codes
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.describe_log_dirs import DescribeLogDirsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient
from support.targets import KpyBroker

NOW_MS = 1_700_000_000_000


class FaultyBroker(KpyBroker):
    """``prefix`` is put before the broker's command, such as one of `injecting`."""

    start_timeout_s = 60.0

    def __init__(self, directory: Path, properties: Mapping[str, str], prefix: Sequence[str] = ()) -> None:
        super().__init__(properties, directory=directory)
        self.prefix = list(prefix)

    def command(self) -> Sequence[str]:
        return [*self.prefix, *super().command()]

    def log_text(self) -> str:
        """The text that it has written to its log."""
        return self.output.read_text()

    def connect(self) -> RawClient:
        return RawClient(self.port)


@cache
def why_no_strace() -> str | None:
    """Why no system call can be made to fail here."""
    if shutil.which("strace") is None:
        return "needs strace, which makes system calls fail: not found"
    tried = subprocess.run(
        ["strace", "-D", "-f", "-qq", "-o", os.devnull, "-e", "inject=fsync:error=EIO", sys.executable, "-c", "0"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return None if tried.returncode == 0 and not tried.stderr else "strace may not trace processes here"


def injecting(trace: Path, files: Sequence[Path], *faults: str) -> list[str]:
    """The prefix under which faults (as ``pwrite64:error=EIO:when=3``) happen to calls on files, noted in ``trace``."""
    command = ["strace", "-D", "-f", "-qq", "-y", "-o", str(trace)]
    calls = ",".join(fault.partition(":")[0] for fault in faults)
    command += ["-e", f"trace={calls}"]
    for fault in faults:
        command += ["-e", f"inject={fault}"]
    for file in files:
        command += ["-P", str(file)]
    return command


def calls_on(trace: Path, call: str, file: Path) -> list[str]:
    """The lines of a trace that tell of a call on a file."""
    pattern = re.compile(rf"\b{call}\(\d+<{re.escape(str(file))}>")
    return [line for line in trace.read_text().splitlines() if pattern.search(line)]


def create(client: RawClient, name: str, directory: Path, **configs: str) -> None:
    """A topic of one partition in this directory."""
    place = AlterReplicaLogDir(path=str(directory), topics=[AlterReplicaLogDirTopic(name=name, partitions=[0])])
    client.call(AlterReplicaLogDirsRequest(dirs=[place]), 2)
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False), 7)
    assert answer.topics[0].error_code == error_codes.NONE


def produce(client: RawClient, topic: str, value: bytes) -> int:
    """The error code of one record with acks=all."""
    return produce_keyed(client, topic, None, value)


def produce_keyed(client: RawClient, topic: str, key: bytes | None, value: bytes) -> int:
    """The same, with a key."""
    batch = build_batch([Record(timestamp=NOW_MS, key=key, value=value)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetch(client: RawClient, topic: str, offset: int = 0) -> Any:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 22)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    return client.call(request, 12).responses[0].partitions[0]


def values(client: RawClient, topic: str) -> list[bytes | None]:
    """All records of a topic."""
    found: list[bytes | None] = []
    offset = 0
    while (answer := fetch(client, topic, offset)).records:
        records = [record for record in read_records(answer.records) if record.offset >= offset]
        found += [record.value for record in records]
        offset = records[-1].offset + 1
    assert answer.error_code == error_codes.NONE
    return found


def directory_errors(client: RawClient) -> dict[str, int]:
    """The error code of each directory, by its name."""
    answer = client.call(DescribeLogDirsRequest(topics=None), 5)
    return {Path(each.log_dir).name: each.error_code for each in answer.results}
