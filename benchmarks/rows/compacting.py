"""Readers at the tail while a large log is compacted."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from confluent_kafka import Producer

from benchmarks.figures import Figure
from benchmarks.raw.load import together
from benchmarks.rows.everywhere import WAIT_S
from benchmarks.rows.requesting import P50, P99, P999, RawRow, percentiles, tail
from benchmarks.rows.row import Effort, RoundError
from benchmarks.sides import Side

AGAINST_CALM = Figure("p99 against the calm one", "times", False)
COMPACTED = Figure("compacted beside it", "MB/s", True)
VALUE_BYTES = 1000
RECORDS_PER_KEY = 4
NEVER = "1.0"
"""``min.cleanable.dirty.ratio``: more than all of a log is never dirty."""
AT_ONCE = "0.01"
BACKOFF_MS = "100"
CHECKPOINT = "cleaner-offset-checkpoint"
CALM_LOADS = 4
FEWEST_ROUNDS = 3
"""The fewest rounds of the tail beside a pass: the last one may reach beyond its end."""


class TailBesideCompaction(RawRow):
    """One record after the other to a waiting Fetch, calm, then as long as a log of many keys is compacted."""

    key = "tail-beside-compaction"
    figures = (P50, P99, P999, AGAINST_CALM, COMPACTED)
    expected_s = 180.0

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.title = f"end to end while {effort.compacted_gb:g} GB are compacted"

    def open(self, side: Side) -> None:
        super().open(side)
        side.configure_brokers({"log.cleaner.backoff.ms": BACKOFF_MS})

    def play(self, side: Side) -> dict[str, float]:
        topic = side.create_topic(
            "compacted", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": NEVER, "segment.ms": "1000"}
        )
        try:
            self.fill(side, topic)
            size_bytes = sum(path.stat().st_size for path in files(side, f"{topic}-0/*.log"))
            os.sync()  # what was filled in is written down before it is calm
            calm = tail(side, self.topics[side], CALM_LOADS * self.effort.load_s)
            began = time.perf_counter()
            side.configure_topic(topic, {"min.cleanable.dirty.ratio": AT_ONCE})
            rounds = []
            while not is_compacted(side, topic):
                if time.perf_counter() - began > WAIT_S:
                    raise RoundError(f"{side.program}: not compacted after {WAIT_S:.0f} s")
                rounds.append(tail(side, self.topics[side], self.effort.load_s))
            took_s = time.perf_counter() - began
        finally:
            side.delete_topic(topic)
        if len(rounds) < FEWEST_ROUNDS:
            raise RoundError(f"{side.program}: compacted within {took_s:.1f} s: choose more --compacted-gb")
        seen = self.last[side] = together(rounds)
        return {
            **percentiles(seen),
            AGAINST_CALM.name: seen.p99_us / calm.p99_us,
            COMPACTED.name: size_bytes / took_s / 1e6,
        }

    def fill(self, side: Side, topic: str) -> None:
        """Write values of a kilobyte, each key several times, and one more record so that the rest is not active."""
        count = int(self.effort.compacted_gb * 1e9 / VALUE_BYTES)
        rng = Random(count)
        producer = Producer({"bootstrap.servers": side.bootstrap_servers, "linger.ms": 20, "batch.size": 500_000})
        noise = rng.randbytes(2 * VALUE_BYTES)
        for number in range(count):
            key, start = rng.randrange(count // RECORDS_PER_KEY), number % VALUE_BYTES
            while True:
                try:
                    producer.produce(topic, key=b"%016d" % key, value=noise[start : start + VALUE_BYTES], partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 1000 == 0:
                producer.poll(0)
        if producer.flush(WAIT_S):
            raise RoundError(f"{side.program}: not all records were taken")
        time.sleep(1.1)
        producer.produce(topic, key=b"last", value=b"", partition=0)
        producer.flush(WAIT_S)


def files(side: Side, pattern: str) -> Iterator[Path]:
    return (side.directory / "broker").glob(f"**/{pattern}")


def is_compacted(side: Side, topic: str) -> bool:
    return any(f"{topic} 0 " in path.read_text() for path in files(side, CHECKPOINT))
