"""A cluster of three nodes of each program, side by side in one run: ``python -m benchmarks.three_nodes``.

    PYTHONPATH=.:compat-tests python -m benchmarks.three_nodes [--rounds 3] [--kpybroker COMMAND] [--only ROW,...]

Both clusters run all the time and are asked in turns; the other one is idle meanwhile. Every topic has three replicas
and ``min.insync.replicas=2``, every producer acks=all. Printed are medians of the rounds, and how many times better
than Apache Kafka kpybroker is.
"""

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, TypeVar

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks import processes
from benchmarks.clients.running import client
from failover.faults import leader_of, wait_for_in_sync
from failover.producing import ConfluentWriter
from failover.verdict import longest_gap_s
from support.clusters import Cluster, KpyNode, Nodes, kpybroker_node, shipped_kafka_node

NODES: Final = 3
PARTITIONS: Final = 3
RECORDS: Final = {100: 400_000, 1_000: 150_000}
ROUND_TRIPS: Final = 1_500
MANY_PARTITIONS: Final = 1_000
BEHIND_RECORDS: Final = 200_000
IDLE_S: Final = 10.0
CALM_S: Final = 3.0
ADMIN_TIMEOUT_S: Final = 120

Figures = dict[str, float]


class Asked:
    """One cluster, and how it is asked."""

    def __init__(self, name: str, cluster: Nodes) -> None:
        self.name, self.cluster = name, cluster
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def create_topic(self, partitions: int = PARTITIONS) -> str:
        """A topic with three replicas of each partition, all in sync."""
        topic = f"three-{uuid.uuid4().hex[:8]}"
        wanted = NewTopic(topic, partitions, NODES, config={"min.insync.replicas": "2"})
        self.admin.create_topics([wanted], request_timeout=ADMIN_TIMEOUT_S)[topic].result(ADMIN_TIMEOUT_S)
        wait_for_in_sync(self.cluster, topic, NODES)
        return topic

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(ADMIN_TIMEOUT_S)

    def cpu_seconds(self) -> float:
        return sum(processes.cpu_seconds(node.pid) for node in self.cluster.nodes.values())


def produce(asked: Asked, record_bytes: int) -> Figures:
    """MB/s of one librdkafka producer."""
    topic, count = asked.create_topic(), RECORDS[record_bytes]
    servers = asked.cluster.bootstrap_servers
    before_s = asked.cpu_seconds()
    seconds = client("confluent_produce", servers, topic, count, record_bytes, record_bytes, "acks=all")
    cpu_s = asked.cpu_seconds() - before_s
    asked.delete_topic(topic)
    return {"MB/s": count * record_bytes / seconds / 1e6, "MB per CPU second": count * record_bytes / cpu_s / 1e6}


def round_trip(asked: Asked) -> Figures:
    """One record after the other, each sent when the one before it was acknowledged."""
    topic = asked.create_topic(1)
    producer = Producer(
        {"bootstrap.servers": asked.cluster.bootstrap_servers, "acks": "all", "linger.ms": 0, "log_level": 0}
    )
    took_ms = []
    for _ in range(ROUND_TRIPS):
        began_s = time.perf_counter()
        producer.produce(topic, b"x" * 100)
        while len(producer):
            producer.poll(0.1)
        took_ms.append((time.perf_counter() - began_s) * 1000)
    asked.delete_topic(topic)
    percentiles = statistics.quantiles(took_ms[ROUND_TRIPS // 10 :], n=100)
    return {"p50 ms": percentiles[49], "p99 ms": percentiles[98]}


def catch_up(asked: Asked) -> Figures:
    """A node that was away is started: until it is in sync again, its start included."""
    topic = asked.create_topic()
    node = asked.cluster.nodes[NODES]
    node.stop()
    client("confluent_produce", _others(asked), topic, BEHIND_RECORDS, 1_000, 1_000, "acks=all")
    began_s = time.perf_counter()
    node.start()
    wait_for_in_sync(asked.cluster, topic, NODES)
    took_s = time.perf_counter() - began_s
    asked.delete_topic(topic)
    return {"MB/s": BEHIND_RECORDS * 1_000 / took_s / 1e6}


def _others(asked: Asked) -> str:
    return ",".join(node.bootstrap_servers for node in asked.cluster.nodes.values() if node.process is not None)


def failover(asked: Asked) -> Figures:
    """The longest time without an acknowledgement when the leader is killed, and when it is stopped."""
    gaps = {}
    for how in ("SIGKILL", "SIGTERM"):
        topic = asked.create_topic()
        writer = ConfluentWriter(how, asked.cluster.access, topic, PARTITIONS)
        writer.start()
        time.sleep(CALM_S)
        node = asked.cluster.nodes[leader_of(asked.cluster, topic)]
        if how == "SIGKILL":
            node.kill()
        else:
            node.stop()
        time.sleep(CALM_S)
        writer.stop()
        node.start()
        wait_for_in_sync(asked.cluster, topic, NODES)
        gaps[f"{how} ms"] = longest_gap_s(writer.times_s) * 1000
        asked.delete_topic(topic)
    return gaps


def many_partitions(asked: Asked) -> Figures:
    """From the request to all partitions with leaders and all replicas in sync; then what they cost when idle."""
    began_s = time.perf_counter()
    topic = asked.create_topic(MANY_PARTITIONS)
    took_s = time.perf_counter() - began_s
    time.sleep(CALM_S)
    before_s = asked.cpu_seconds()
    time.sleep(IDLE_S)
    cpu_s = asked.cpu_seconds() - before_s
    rss_bytes = sum(processes.rss_bytes(node.pid) for node in asked.cluster.nodes.values())
    asked.delete_topic(topic)
    return {"created s": took_s, "idle CPU %": cpu_s / IDLE_S * 100, "RSS MB": rss_bytes / 1e6}


ROWS: Final[Mapping[str, Callable[[Asked], Figures]]] = {
    "produce-100": lambda asked: produce(asked, 100),
    "produce-1000": lambda asked: produce(asked, 1_000),
    "round-trip": round_trip,
    "many-partitions": many_partitions,
    "catch-up": catch_up,
    "failover": failover,
}
MORE_IS_BETTER: Final = ("MB",)


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--warm", type=click.IntRange(0), default=1, show_default=True, help="Rounds before, not counted.")
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
@click.option("--only", help="Rows: " + ", ".join(ROWS))
def main(rounds: int, warm: int, kpybroker: Path | None, only: str | None) -> None:
    """Compare clusters of three."""
    if kpybroker is not None:
        KpyNode.path = kpybroker
    rows = [name for name in ROWS if only is None or name in only.split(",")]
    with ExitStack() as stack:
        sides = []
        for name, node_of in (("Apache Kafka", shipped_kafka_node), ("kpybroker", kpybroker_node)):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="three-nodes-")))
            sides.append(Asked(name, stack.enter_context(Cluster(node_of, directory))))
        play({name: ROWS[name] for name in rows}, sides, rounds, warm)


class Side(Protocol):
    """A program that plays."""

    name: str


Played = TypeVar("Played", bound=Side)


def play(rows: Mapping[str, Callable[[Played], Figures]], sides: Sequence[Played], rounds: int, warm: int) -> None:
    """Play rows on both sides in turns, and print what was measured. Rounds of ``warm`` do not count."""
    console = Console()
    measured: dict[tuple[str, str], list[Figures]] = {}
    for row, measure in rows.items():
        for number in range(-warm, rounds):
            for side in sides if number % 2 else reversed(sides):
                figures = measure(side)
                console.log(f"{row} {side.name}" + (" (warming)" if number < 0 else ""), figures)
                if number >= 0:
                    measured.setdefault((row, side.name), []).append(figures)
    console.print(table(list(rows), measured))


def table(rows: list[str], measured: Mapping[tuple[str, str], list[Figures]]) -> Table:
    """Medians, and the ratio: above 1 kpybroker is better."""
    shown = Table("row", "", "Apache Kafka", "kpybroker", "ratio")
    for row in rows:
        for figure in measured[row, "kpybroker"][0]:
            theirs, ours = (
                statistics.median(each[figure] for each in measured[row, side])
                for side in ("Apache Kafka", "kpybroker")
            )
            ratio = ours / theirs if figure.startswith(MORE_IS_BETTER) else theirs / ours
            shown.add_row(row, figure, f"{theirs:.2f}", f"{ours:.2f}", f"{ratio:.2f}")
    return shown


if __name__ == "__main__":
    main()
