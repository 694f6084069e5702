"""Features of some platforms are switched off, one by one: the broker serves and recovers all the same.

Every case produces, reads from the tail and from older segments, commits, ends like a killed process, and starts again.
"""

import asyncio
import errno
import os
import select
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from running_node import RunningNode

from kpybroker.requests.server import page_cache, poller
from kpybroker.requests.server.poller import LoopPoller
from kpybroker.runtime.fairness.turn import NoWrites, Turn
from kpybroker.runtime.io import system_sockets
from kpystorage import real_descriptor, real_disk, system_calls
from kpystorage.log_slice import LogSlice
from kpystorage.real_disk import RealDisk

RECORDS = 3_000
TOPIC = "platforms"
Patch = pytest.MonkeyPatch


def without_epoll(patch: Patch) -> None:
    elsewhere = {name: value for name, value in vars(select).items() if name != "epoll"}
    patch.setattr(system_sockets, "select", SimpleNamespace(**elsewhere))


def without_sendfile(patch: Patch) -> None:
    patch.setattr(LogSlice, "fileno", lambda _slice: -1)

    def sendfile(*_arguments: Any) -> int:
        raise AssertionError("sendfile is switched off")

    patch.setattr(os, "sendfile", sendfile)


def without_nowait_reads(patch: Patch) -> None:
    patch.setattr(page_cache, "_NOWAIT", 0)


def with_nowait_reads_that_the_file_system_lacks(patch: Patch) -> None:
    def preadv(*_arguments: Any) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    patch.setattr(os, "preadv", preadv)


def without_boot_id(patch: Patch) -> None:
    patch.setattr(real_disk, "BOOT_ID_PATH", "/nowhere/boot_id")
    assert RealDisk().boot_id() == ""


def without_syncfs(patch: Patch) -> None:
    patch.setattr(system_calls, "library_call", lambda _name: None)


def with_full_fsync(patch: Patch) -> None:
    """A file system of macOS that lacks the full fsync: the usual fsync has to do."""
    patch.setattr(real_descriptor, "FULL_FSYNC", 0x7FFF)


@pytest.mark.parametrize(
    "switch_off",
    [
        without_epoll,
        without_sendfile,
        without_nowait_reads,
        with_nowait_reads_that_the_file_system_lacks,
        without_boot_id,
        without_syncfs,
        with_full_fsync,
    ],
)
def test_the_broker_serves_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch_off: Callable[[Patch], None]
) -> None:
    switch_off(monkeypatch)
    settings = {"log.dirs": str(tmp_path / "data"), "log.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"}
    first = RunningNode(settings)
    try:
        producer = KafkaProducer(bootstrap_servers=address(first), linger_ms=5)
        for number in range(RECORDS):
            producer.send(TOPIC, b"%01000d" % number)
        producer.flush()
        producer.close()
        assert everything(address(first), "readers") == list(range(RECORDS))
    finally:
        first.stop()
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()  # as if it had been killed
    second = RunningNode(settings)
    try:
        assert everything(address(second), None) == list(range(RECORDS))
        consumer = KafkaConsumer(bootstrap_servers=address(second), group_id="readers")
        assert consumer.committed(TopicPartition(TOPIC, 0)) == RECORDS
        consumer.close()
    finally:
        second.stop()
    assert not second.failures


def address(node: RunningNode) -> str:
    return f"127.0.0.1:{node.port}"


def everything(bootstrap_servers: str, group_id: str | None) -> list[int]:
    """All records of the topic, from older segments on; committed, for a group."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=group_id,
        enable_auto_commit=False,
        max_partition_fetch_bytes=200_000,
    )
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    found: list[int] = []
    while len(found) < RECORDS:
        for records in consumer.poll(timeout_ms=10_000).values():
            found += [int(record.value) for record in records]
    if group_id is not None:
        consumer.commit({partition: OffsetAndMetadata(len(found), "", -1)})
    consumer.close()
    return found


def test_without_epoll_the_loop_watches_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    without_epoll(monkeypatch)
    loop = asyncio.new_event_loop()
    try:
        assert isinstance(poller.poller_for(loop, loop.time, Turn(NoWrites())), LoopPoller)
    finally:
        loop.close()
