"""Tiered storage of one node of each program, side by side in one run: ``python -m benchmarks.tiered``.

    PYTHONPATH=.:compat-tests python -m benchmarks.tiered [--rounds 3] [--kpybroker COMMAND] [--only ROW,...]

The store of both is Kafka's LocalTieredStorage, in a directory of its own for each. Its class is of 4.3.1, so is Apache
Kafka here. Both brokers run all the time and are asked in turns; the other one is idle meanwhile. Printed are medians
of the rounds, and how many times better than Apache Kafka kpybroker is.
"""

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import processes
from benchmarks.clients.running import client
from benchmarks.three_nodes import play as play_rows
from kpywire.batch import parse_header
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oracle.jars import KAFKA_BEFORE
from support.clusters import Cluster, KpyNode, Nodes, kpybroker_node
from support.raw_client import RawClient, connect
from support.raw_requests import offset_at, wait_until_led
from support.special_timestamps import EARLIEST_LOCAL, LATEST_TIERED
from support.waiting import eventually
from tiered.filling import SEGMENT_MS, fill
from tiered.nodes import kafka_of, tiered

SEGMENT_BYTES: Final = 32 << 20
RECORDS: Final = 400_000
RECORD_BYTES: Final = 1_000
COLD_PARTITIONS: Final = 50
COLD_RECORDS: Final = 500
ROUND_TRIPS: Final = 2_000
COPIED_RECORDS: Final = 600_000
FETCH_VERSION: Final = 12
PATIENCE_S: Final = 300.0
ADMIN_TIMEOUT_S: Final = 60

Figures = dict[str, float]


class Asked:
    """One broker, and how it is asked."""

    def __init__(self, name: str, cluster: Nodes) -> None:
        self.name, self.cluster = name, cluster
        self.servers = cluster.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create_topic(self, partitions: int = 1, *, is_tiered: bool = True, **configs: str) -> str:
        """A topic, and its name."""
        topic = f"tiered-{uuid.uuid4().hex[:8]}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        if is_tiered:
            named |= {"remote.storage.enable": "true", "local.retention.bytes": "1", "retention.ms": "-1"}
            named.setdefault("segment.bytes", str(SEGMENT_BYTES))
        created = self.admin.create_topics([NewTopic(topic, partitions, 1, config=named)])
        created[topic].result(ADMIN_TIMEOUT_S)
        with connect(self.servers) as raw:
            wait_until_led(raw, topic, partitions)
        return topic

    def fill(self, topic: str, records: int) -> float:
        """Append records of one producer; the seconds that it took."""
        return float(client("confluent_produce", self.servers, topic, records, RECORD_BYTES, RECORD_BYTES, "acks=all"))

    def wait_until_tiered(self, topic: str, partitions: int = 1) -> None:
        """Until the disk has the active segments alone."""
        with connect(self.servers) as raw:
            for index in range(partitions):
                eventually(partial(_is_tiered, raw, topic, index), f"{topic}-{index} in the store", PATIENCE_S)

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(ADMIN_TIMEOUT_S)

    def cpu_seconds(self) -> float:
        return sum(processes.cpu_seconds(node.pid) for node in self.cluster.nodes.values())


def _is_tiered(raw: RawClient, topic: str, index: int) -> bool:
    on_disk = offset_at(raw, topic, EARLIEST_LOCAL, partition=index)[2]
    return on_disk > 0 and on_disk == offset_at(raw, topic, LATEST_TIERED, partition=index)[2] + 1


def read(asked: Asked) -> Figures:
    """A client that reads a partition from the store, one request after the other."""
    topic = asked.create_topic()
    asked.fill(topic, RECORDS)
    asked.wait_until_tiered(topic)
    with connect(asked.servers) as raw:
        end = offset_at(raw, topic, EARLIEST_LOCAL)[2]
        before_s, began_s = asked.cpu_seconds(), time.perf_counter()
        size_bytes = _read_to(raw, topic, end)
        took_s, cpu_s = time.perf_counter() - began_s, asked.cpu_seconds() - before_s
    asked.delete_topic(topic)
    return {"MB/s": size_bytes / took_s / 1e6, "MB per CPU second": size_bytes / cpu_s / 1e6}


def _read_to(raw: RawClient, topic: str, end: int) -> int:
    offset = size_bytes = 0
    while offset < end:
        (answer,) = raw.call(_fetch(topic, {0: offset}), FETCH_VERSION).responses[0].partitions
        assert answer.error_code == 0, answer.error_code
        data = memoryview(answer.records or b"")
        position = 0
        while position + 61 <= len(data):
            header = parse_header(data, position)
            if position + header.size > len(data):
                break
            position += header.size
            offset = header.next_offset
        size_bytes += position
    return size_bytes


def _fetch(topic: str, offsets: Mapping[int, int]) -> FetchRequest:
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )


def cold(asked: Asked) -> Figures:
    """The time until a client has the first records of one cold partition, and of fifty, for which it asks at once."""
    topic = asked.create_topic(COLD_PARTITIONS + 1, segment_ms=str(SEGMENT_MS))
    with connect(asked.servers) as raw:
        for index in range(COLD_PARTITIONS + 1):
            fill(raw, topic, range(3), index, COLD_RECORDS, RECORD_BYTES)
    asked.wait_until_tiered(topic, COLD_PARTITIONS + 1)
    one_ms = _first_records_ms(asked, topic, range(COLD_PARTITIONS, COLD_PARTITIONS + 1))
    all_ms = _first_records_ms(asked, topic, range(COLD_PARTITIONS))
    asked.delete_topic(topic)
    return {"one ms": one_ms, "fifty ms": all_ms, "fifty to one": all_ms / one_ms}


def _first_records_ms(asked: Asked, topic: str, partitions: range) -> float:
    missing = dict.fromkeys(partitions, 0)
    with connect(asked.servers) as raw:
        began_s = time.perf_counter()
        while missing:
            answered = raw.call(_fetch(topic, missing), FETCH_VERSION).responses[0].partitions
            for each in answered:
                if each.records:
                    del missing[each.partition_index]
        return (time.perf_counter() - began_s) * 1_000


def produce_while_copying(asked: Asked) -> Figures:
    """The round trips of a producer of another topic, calm and while segments are copied."""
    calm_topic = asked.create_topic(is_tiered=False)
    calm = _round_trips_ms(asked, calm_topic)
    topic = asked.create_topic(4)
    asked.fill(topic, COPIED_RECORDS)
    copying = _round_trips_ms(asked, calm_topic)
    asked.wait_until_tiered(topic, 4)
    for each in (calm_topic, topic):
        asked.delete_topic(each)
    return {"calm p99 ms": calm, "copying p99 ms": copying, "copying to calm": copying / calm}


def _round_trips_ms(asked: Asked, topic: str) -> float:
    producer = Producer({"bootstrap.servers": asked.servers, "acks": "all", "linger.ms": 0, "log_level": 0})
    took_ms = []
    for _ in range(ROUND_TRIPS):
        began_s = time.perf_counter()
        producer.produce(topic, b"x" * 100)
        while len(producer):
            producer.poll(0.1)
        took_ms.append((time.perf_counter() - began_s) * 1_000)
    return statistics.quantiles(took_ms[ROUND_TRIPS // 10 :], n=100)[98]


ROWS: Final[Mapping[str, Callable[[Asked], Figures]]] = {
    "read": read,
    "cold": cold,
    "produce-while-copying": produce_while_copying,
}


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--warm", type=click.IntRange(0), default=1, show_default=True, help="Rounds before, not counted.")
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
@click.option("--only", help="Rows: " + ", ".join(ROWS))
def main(rounds: int, warm: int, kpybroker: Path | None, only: str | None) -> None:
    """Compare brokers with tiered storage."""
    if kpybroker is not None:
        KpyNode.path = kpybroker
    rows = {name: row for name, row in ROWS.items() if only is None or name in only.split(",")}
    with ExitStack() as stack:
        sides = []
        for name, node_of in (("Apache Kafka", kafka_of(KAFKA_BEFORE)), ("kpybroker", kpybroker_node)):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiered-")))
            (directory / "store").mkdir()
            cluster = stack.enter_context(Cluster(node_of, directory, 1, tiered(directory / "store")))
            sides.append(Asked(name, cluster))
        play_rows(rows, sides, rounds, warm)


if __name__ == "__main__":
    main()
