"""A topic kept as a Delta table by ``kpybroker lake``: how fast it is caught up with, and how old the newest rows are.

The writer is a client like others: it is the same program on both sides.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.clients import running
from benchmarks.clients.running import CLIENT_TIMEOUT_S, ClientError
from benchmarks.figures import Figure
from benchmarks.rows.row import Effort, Meter, RoundError, Row
from benchmarks.rows.shape import Shape
from benchmarks.sides import Side

RATE_PER_CORE = Figure("per core", "records/s", True)
RATE = Figure("throughput", "records/s", True)
BROKER_CPU = Figure("broker CPU", "s/GB", False)
WORST_AGE = Figure("oldest row at its commit", "s", False)
SHAPE = Shape(record_bytes=100)
PARTITIONS = 2
PACE = 50_000
PACED_S = 4
"""How many times the effort's seconds records come at this pace."""


class LakeBackfill(Row):
    """``kpybroker lake run --once`` into a new table, from its start to its end."""

    key = "lake-append"
    title = "a topic of 100 B records becomes a Delta table"
    figures = (RATE_PER_CORE, RATE, BROKER_CPU)

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}

    @property
    def count(self) -> int:
        return self.effort.records(SHAPE.record_bytes)

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic("lake", PARTITIONS)
        running.confluent_produce(side.bootstrap_servers, topic, self.count, SHAPE)

    def play(self, side: Side) -> dict[str, float]:
        with table() as target:
            meter, before_s = Meter(side), children_s()
            printed = lake("run", self.topics[side], target, "--once", "-q", "-b", side.bootstrap_servers)
            wall_s, broker_s = meter.end()
            cpu_s = children_s() - before_s
            if not printed.startswith(f"{self.count} rows and 0 dead letters"):
                raise RoundError(f"{side.program}: {self.count} records became {printed.strip()}")
        size = self.count * SHAPE.record_bytes / 1e9
        return {
            RATE_PER_CORE.name: self.count / cpu_s,
            RATE.name: self.count / wall_s,
            BROKER_CPU.name: broker_s / size,
        }

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))


class LakeFreshness(Row):
    """Records come at 50 000 a second, while a writer follows: how old the oldest of each commit is in the table."""

    key = "lake-freshness"
    title = "a Delta table follows 50 000 records of 100 B a second"
    figures = (WORST_AGE,)

    def play(self, side: Side) -> dict[str, float]:
        topic = side.create_topic("fresh", PARTITIONS)
        try:
            with table() as target, following(topic, target, side.bootstrap_servers):
                produce_at_pace(side.bootstrap_servers, topic, int(PACE * PACED_S * self.effort.load_s))
                wait_until_written(target, int(PACE * PACED_S * self.effort.load_s))
                return {WORST_AGE.name: max(ages_s(target))}
        finally:
            side.delete_topic(topic)


def lake_rows(effort: Effort) -> list[Row]:
    return [LakeBackfill(effort), LakeFreshness(effort)]


# The writer.


@contextmanager
def table() -> Iterator[str]:
    """The name of a table that does not exist yet; its files are removed."""
    directory = tempfile.mkdtemp(prefix="kpybroker-lake-")
    try:
        yield f"delta:{directory}/table"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kpybroker", "lake", *words]


def lake(*words: str) -> str:
    """The output of a command. Raises ClientError."""
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False)
    if done.returncode:
        raise ClientError(f"kpybroker lake: {done.stderr[-500:]}")
    return done.stdout


def children_s() -> float:
    """CPU seconds of all children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


@contextmanager
def following(topic: str, target: str, bootstrap: str) -> Iterator[None]:
    """A writer that follows a topic. Raises ClientError."""
    words = command("run", topic, target, "-q", "-b", bootstrap)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as writer:
        try:
            while not path_of(target).exists():
                if writer.poll() is not None:
                    assert writer.stderr is not None
                    raise ClientError(f"kpybroker lake: {writer.stderr.read()[-500:]}")
                time.sleep(0.05)
            yield
        finally:
            writer.send_signal(signal.SIGTERM)


def path_of(target: str) -> Path:
    """The log of a Delta table."""
    return Path(target.removeprefix("delta:")) / "_delta_log"


def produce_at_pace(bootstrap: str, topic: str, count: int) -> None:
    """Write records evenly. Raises ClientError."""
    running.client("paced_produce", bootstrap, topic, count, PACE, SHAPE.record_bytes)


def wait_until_written(target: str, count: int) -> None:
    """Raises RoundError."""
    deadline_s = time.monotonic() + 60
    while sum(rows for _, rows, _ in commits(target)) < count:
        if time.monotonic() > deadline_s:
            raise RoundError(f"after 60 s not all of {count} rows are in the table")
        time.sleep(0.2)


def commits(target: str) -> Iterator[tuple[float, int, float]]:
    """The commits of a table: the time of each, its rows, and the oldest timestamp in them, in seconds."""
    for path in sorted(path_of(target).glob("*.json")):
        actions: Sequence[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
        statistics = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]
        if statistics and sum(each["numRecords"] for each in statistics):
            oldest = min(each["minValues"]["_timestamp"] for each in statistics)
            yield path.stat().st_mtime, sum(each["numRecords"] for each in statistics), seconds_of(oldest)


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def ages_s(target: str) -> Iterator[float]:
    """How old the oldest row of each commit was when it could be read."""
    return (committed_s - oldest_s for committed_s, _, oldest_s in commits(target))
