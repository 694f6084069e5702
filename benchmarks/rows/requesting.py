"""Many small requests, and the time of one, by the raw load generator with precomputed frames."""

import time

from benchmarks.figures import Figure
from benchmarks.raw import frames, load
from benchmarks.raw.load import Load
from benchmarks.rows.row import Effort, Meter, RoundError, Row
from benchmarks.sides import Side

SMALL_BATCH_BYTES = 213
REQUEST_RATE = Figure("throughput", "requests/s", True)
CPU_PER_REQUEST = Figure("broker CPU", "µs/request", False)
P50 = Figure("p50", "µs", False)
P99 = Figure("p99", "µs", False)
P999 = Figure("p99.9", "µs", False)


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
    """Produce of one 213 B batch, acks=1, from 200 connections that each wait for their answer."""

    key = "small-requests"
    connections = 200
    title = f"Produce of {SMALL_BATCH_BYTES} B from {connections} connections"
    figures = (REQUEST_RATE, CPU_PER_REQUEST, P99)

    def open(self, side: Side) -> None:
        self.partitions = self.effort.partitions
        super().open(side)

    def play(self, side: Side) -> dict[str, float]:
        batch = frames.batch_of_bytes(SMALL_BATCH_BYTES, int(time.time() * 1000))
        produces = [frames.produce(self.topics[side], [index], batch) for index in range(self.partitions)]
        return self.offer(side, produces, self.connections)


class ManyPartitions(RawRow):
    """One Produce request with a batch for each of 50 partitions."""

    key = "many-partitions"
    title = "one Produce request with 50 partitions"
    partitions = 50
    figures = (CPU_PER_REQUEST, P50, P99)

    def play(self, side: Side) -> dict[str, float]:
        batch = frames.batch_of_bytes(SMALL_BATCH_BYTES, int(time.time() * 1000))
        return self.offer(side, [frames.produce(self.topics[side], range(self.partitions), batch)], 1)


class RoundTrip(RawRow):
    """One connection, one small Produce after the other."""

    key = "round-trip"
    title = "round trip of one Produce, acks=1"
    figures = (P50, P99, P999, CPU_PER_REQUEST)

    def play(self, side: Side) -> dict[str, float]:
        batch = frames.batch_of_bytes(SMALL_BATCH_BYTES, int(time.time() * 1000))
        return self.offer(side, [frames.produce(self.topics[side], [0], batch)], 1)


class EndToEnd(RawRow):
    """From sending a record to its arrival at a consumer whose Fetch waits for it."""

    key = "end-to-end"
    title = "end to end, one record to a waiting Fetch"
    figures = (P50, P99, P999)

    def play(self, side: Side) -> dict[str, float]:
        topic = self.topics[side]
        batch = frames.batch_of_bytes(SMALL_BATCH_BYTES, int(time.time() * 1000))
        produce = frames.produce(topic, [0], batch)
        first_offset = side.record_count(topic, 1)
        fetch = frames.fetch(topic, 0, first_offset, max_bytes=1 << 20, min_bytes=1, max_wait_ms=500)
        seen = self.last[side] = load.end_to_end(side.address, produce, fetch, first_offset, seconds=self.effort.load_s)
        if not seen.answers:
            raise RoundError(f"{side.program}: no record arrived")
        return percentiles(seen)


def percentiles(seen: Load) -> dict[str, float]:
    return {P50.name: seen.p50_us, P99.name: seen.p99_us, P999.name: seen.p999_us}
