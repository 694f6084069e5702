"""How long a broker takes to load committed offsets, and how late its event loop is meanwhile.

    python -m benchmarks.groups.loading [--commits 1000000] [--per-batch 1] [--partitions 1000000]

Commits are written into one partition of ``__consumer_offsets`` as brokers write them, for as many different
partitions as asked for; then a node starts on that directory, with a probe in its event loop that notes how late it
is called. The node runs as in a process of its own, garbage collector included.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from benchmarks.groups.lag import LoopLag
from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.node.node import Node
from kpybroker.runtime.io.collector import GarbageCollector
from kpybroker.runtime.io.event_loop import new_event_loop
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire.batch import parse_header
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.record import Record, build_batch

T = TypeVar("T")

TOPIC = "__consumer_offsets"
GROUPS = 1_000


def config_of(directory: Path) -> BrokerConfig:
    return BrokerConfig.load(
        None,
        {
            "log.dirs": str(directory),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "kpybroker.http.listener": "",
            "offsets.topic.num.partitions": "1",
        },
    )


def commits(count: int, partitions: int) -> Iterator[Record]:
    """Commits of a number of groups, one after the other."""
    now_ms = time.time_ns() // 1_000_000
    for number in range(count):
        place = number % partitions
        key = OffsetCommitKey(
            group=f"group-{place % GROUPS}", topic=f"topic-{place // GROUPS % 100}", partition=place // GROUPS
        )
        value = OffsetCommitValue(
            offset=number, leader_epoch=0, metadata="", commit_timestamp=now_ms, expire_timestamp=-1
        )
        encoded = GroupRecord(key, value, 4).encoded()
        yield Record(timestamp=now_ms, key=encoded[0], value=encoded[1])


async def fill(directory: Path, count: int, partitions: int, per_batch: int) -> int:
    """Write the commits; the bytes it took."""
    node = Node(config_of(directory), asyncio.get_running_loop(), print)
    await node.start(RealDisk(Descriptors(512)))
    broker = node.broker
    assert broker is not None
    created: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
    broker.controller.send(request, created.set_result)
    await created
    log = broker.replicas.find(TOPIC, 0).led().log
    waiting: list[Record] = []

    def write(records: Sequence[Record]) -> None:
        batch = build_batch(records, base_offset=log.log_end_offset, partition_leader_epoch=0)
        log.append((parse_header(batch),), batch, 0)

    for record in commits(count, partitions):
        waiting.append(record)
        if len(waiting) == per_batch:
            write(waiting)
            waiting.clear()
    if waiting:
        write(waiting)
    size = log.size
    await node.stop()
    return size


async def load(directory: Path) -> None:
    """Start a node on what was written, and watch it load."""
    began = time.perf_counter()
    node = Node(config_of(directory), asyncio.get_running_loop(), print)
    await node.start(RealDisk(Descriptors(512)))
    GarbageCollector(node.scheduler).start()
    ready = time.perf_counter()
    broker = node.broker
    assert broker is not None
    shard = broker.groups.shards[0]
    lag = LoopLag(asyncio.get_running_loop())
    while not shard.journal.is_open:
        assert not shard.is_over, "the log cannot be loaded"
        await asyncio.sleep(0.005)
    loaded = time.perf_counter()
    await asyncio.sleep(0.2)
    print(f"ready after {1000 * (ready - began):.0f} ms, loaded {loaded - ready:.2f} s later; loop lag {lag.stop()}")
    await node.stop()


def in_new_loop(work: Coroutine[Any, Any, T]) -> T:
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


@click.command()
@click.option("--commits", "count", default=1_000_000, show_default=True)
@click.option("--partitions", default=1_000_000, show_default=True, help="Different ones; the rest are overwritten.")
@click.option("--per-batch", default=1, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Use this directory, again if it is there.")
def main(count: int, partitions: int, per_batch: int, keep: Path | None) -> None:
    directory = keep or Path(tempfile.mkdtemp(prefix="kpy-loading-"))
    try:
        if not (directory / f"{TOPIC}-0").exists():
            size = in_new_loop(fill(directory, count, partitions, per_batch))
            print(f"{count} commits, {per_batch} a batch, {size} bytes; {sys.version.split()[0]}")
        in_new_loop(load(directory))
    finally:
        if keep is None:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
