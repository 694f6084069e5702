"""Many small requests, and the time of one, by the raw load generator with precomputed frames."""

import random
import time
from collections.abc import Sequence

from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.raw import frames, load
from benchmarks.raw.load import Load
from benchmarks.rows.row import BY_CONNECTIONS, BY_PARTITIONS, Effort, Meter, Point, RoundError, Row
from benchmarks.sides import Side

SMALL_BATCH_BYTES = 213
REQUEST_RATE = Figure("throughput", "requests/s", True)
CPU_PER_REQUEST = Figure("broker CPU", "µs/request", False)
CPU_PER_PARTITION = Figure("broker CPU", "µs/partition", False)
CPU_PER_RECORD = Figure("broker CPU", "µs/record", False)
P50 = Figure("p50", "µs", False)
P99 = Figure("p99", "µs", False)
P999 = Figure("p99.9", "µs", False)
MEAN_MS = Figure("mean", "ms", False)
BATCH_RECORDS = 1000
RECORD_BYTES = 100
LATENCY_RECORDS_PER_S = 1500
"""About what EndToEndLatency gets through, so that its round lasts as long as the others."""
SHORTEST_TAIL_S = 4.0
"""The shortest round: of the records of one second, four are behind the percentile 99.9, too few to compare."""


class RawRow(Row):
    """A row whose rounds are load on one topic, opened once per side."""

    partitions = 1

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}
        self.last: dict[Side, Load] = {}

    def open(self, side: Side) -> None:
        self.topics[side] = side.create_topic(self.key, self.partitions)

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))

    def histogram_us(self, side: Side) -> list[list[float]]:
        return self.last[side].histogram_us if side in self.last else []

    def offer(self, side: Side, produces: list[frames.Produce], connections: int) -> dict[str, float]:
        """Closed-loop load; every figure a row may want."""
        meter = Meter(side)
        seen = load.requests(
            side.address, produces, connections=connections, seconds=self.effort.load_s, ready=meter.begin
        )
        _, cpu_s = meter.end()
        self.last[side] = seen
        return {
            REQUEST_RATE.name: seen.answers / seen.seconds,
            CPU_PER_REQUEST.name: cpu_s / seen.answers * 1e6,
            **percentiles(seen),
        }


class SmallRequests(RawRow):
    """Produce of one 213 B batch, acks=1, from connections that each wait for their answer."""

    figures = (REQUEST_RATE, CPU_PER_REQUEST, P99)

    def __init__(self, effort: Effort, connections: int) -> None:
        super().__init__(effort)
        self.connections = connections
        self.partitions = effort.partitions
        words = "one connection" if connections == 1 else f"{connections} connections"
        self.key = f"small-requests-{connections}"
        self.title = f"Produce of {SMALL_BATCH_BYTES} B from {words}"
        self.points = (Point(BY_CONNECTIONS, "small Produce requests", connections, REQUEST_RATE.name),)

    def play(self, side: Side) -> dict[str, float]:
        batch = frames.batch_of_bytes(SMALL_BATCH_BYTES, now_ms())
        produces = [frames.produce(self.topics[side], [index], batch) for index in range(self.partitions)]
        return self.offer(side, produces, self.connections)


class ManyPartitions(RawRow):
    """One Produce request with a batch for each of its partitions."""

    figures = (CPU_PER_PARTITION, P50, P99)

    def __init__(self, effort: Effort, partitions: int) -> None:
        super().__init__(effort)
        self.partitions = partitions
        self.key = f"many-partitions-{partitions}"
        self.title = f"one Produce request with {partitions} partition{'s' if partitions > 1 else ''}"
        self.points = (Point(BY_PARTITIONS, "one Produce request", partitions, CPU_PER_PARTITION.name),)

    def play(self, side: Side) -> dict[str, float]:
        batch = frames.batch_of_bytes(SMALL_BATCH_BYTES, now_ms())
        seen = self.offer(side, [frames.produce(self.topics[side], range(self.partitions), batch)], 1)
        return {**seen, CPU_PER_PARTITION.name: seen[CPU_PER_REQUEST.name] / self.partitions}


class RecordCost(RawRow):
    """One Produce after the other of a batch of a thousand records, of one size or of many."""

    figures = (CPU_PER_RECORD, P50)

    def __init__(self, effort: Effort, *, equal: bool) -> None:
        super().__init__(effort)
        rng = random.Random(1)
        sizes = [
            RECORD_BYTES if equal else rng.randint(RECORD_BYTES // 2, RECORD_BYTES * 3 // 2)
            for _ in range(BATCH_RECORDS)
        ]
        self.values: Sequence[bytes] = [b"x" * size for size in sizes]
        self.key = "record-cost-equal" if equal else "record-cost-unequal"
        self.title = f"Produce of {BATCH_RECORDS} records of {'equal' if equal else 'unequal'} sizes"

    def play(self, side: Side) -> dict[str, float]:
        produce = frames.produce(self.topics[side], [0], frames.batch(self.values, now_ms()))
        seen = self.offer(side, [produce], 1)
        return {**seen, CPU_PER_RECORD.name: seen[CPU_PER_REQUEST.name] / BATCH_RECORDS}


class RoundTrip(RawRow):
    """One connection, one small Produce after the other."""

    figures = (P50, P99, P999, CPU_PER_REQUEST)

    def __init__(self, effort: Effort, acks: int) -> None:
        super().__init__(effort)
        self.acks = acks
        self.key = "round-trip" if acks == 1 else "round-trip-acks-all"
        self.title = f"round trip of one Produce, acks={'all' if acks < 0 else acks}"

    def play(self, side: Side) -> dict[str, float]:
        batch = frames.batch_of_bytes(SMALL_BATCH_BYTES, now_ms())
        return self.offer(side, [frames.produce(self.topics[side], [0], batch, acks=self.acks)], 1)


class EndToEnd(RawRow):
    """From sending a record to its arrival at a consumer whose Fetch waits for it."""

    key = "end-to-end"
    title = "end to end, one record to a waiting Fetch"
    figures = (P50, P99, P999)

    def play(self, side: Side) -> dict[str, float]:
        seen = self.last[side] = tail(side, self.topics[side], max(self.effort.load_s, SHORTEST_TAIL_S))
        return percentiles(seen)


class EndToEndJava(RawRow):
    """Kafka's EndToEndLatency: its producer and its consumer, one record after the other, a fresh JVM each round."""

    key = "end-to-end-java"
    title = "end to end, EndToEndLatency"
    expected_s = 45.0
    figures = (MEAN_MS,)

    def play(self, side: Side) -> dict[str, float]:
        count = int(LATENCY_RECORDS_PER_S * self.effort.load_s)
        return {
            MEAN_MS.name: running.end_to_end_latency(side.bootstrap_servers, self.topics[side], count, RECORD_BYTES)
        }


def tail(side: Side, topic: str, seconds: float, period_us: int = 0) -> Load:
    """One record after the other to a Fetch that waits at the end of the topic's partition 0. Raises RoundError."""
    produce = frames.produce(topic, [0], frames.batch_of_bytes(SMALL_BATCH_BYTES, now_ms()))
    first_offset = side.record_count(topic, 1)
    fetch = frames.fetch(topic, 0, first_offset, max_bytes=1 << 20, min_bytes=1, max_wait_ms=500)
    seen = load.end_to_end(side.address, produce, fetch, first_offset, seconds=seconds, period_us=period_us)
    if not seen.answers:
        raise RoundError(f"{side.program}: no record arrived")
    return seen


def percentiles(seen: Load) -> dict[str, float]:
    return {P50.name: seen.p50_us, P99.name: seen.p99_us, P999.name: seen.p999_us}


def now_ms() -> int:
    return int(time.time() * 1000)


def request_rows(effort: Effort) -> list[Row]:
    return [
        *(SmallRequests(effort, connections) for connections in (1, 50, 200, 1000)),
        *(ManyPartitions(effort, partitions) for partitions in (1, 6, 50, 100)),
        RecordCost(effort, equal=True),
        RecordCost(effort, equal=False),
        RoundTrip(effort, 1),
        RoundTrip(effort, -1),
        EndToEnd(effort),
        EndToEndJava(effort),
    ]
