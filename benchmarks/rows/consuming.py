"""Consume throughput: a real client, which is the limit itself, and a raw reader that shows the broker's own."""

import time

from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.raw import frames, load
from benchmarks.rows.producing import CPU_PER_GB, RATE, expect_records
from benchmarks.rows.row import Effort, Meter, Row
from benchmarks.sides import Side

BYTE_RATE = Figure("throughput", "MB/s", True)
DRAIN_RECORDS_PER_BATCH = 150
DRAIN_RECORD_BYTES = 100
DRAIN_BATCHES = 6000
DRAIN_FETCH_BYTES = 1 << 20


class ConsumeConfluent(Row):
    """confluent-kafka with all partitions assigned from their start; the topic is written once per side."""

    figures = (RATE, CPU_PER_GB)

    def __init__(self, effort: Effort, record_bytes: int) -> None:
        super().__init__(effort)
        self.record_bytes = record_bytes
        self.key = f"consume-confluent-{record_bytes}"
        self.title = f"consume, confluent-kafka, {record_bytes} B"
        self.topics: dict[Side, str] = {}

    @property
    def count(self) -> int:
        return self.effort.records(self.record_bytes)

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic("consume", self.effort.partitions)
        sizes = (self.record_bytes, self.record_bytes)
        running.confluent("confluent_produce", side.bootstrap_servers, topic, self.count, *sizes)
        expect_records(side, topic, self.effort.partitions, self.count)

    def play(self, side: Side) -> dict[str, float]:
        partitions = self.effort.partitions
        meter = Meter(side)
        seconds = running.confluent(
            "confluent_consume", side.bootstrap_servers, self.topics[side], partitions, self.count
        )
        _, cpu_s = meter.end()
        return {RATE.name: self.count / seconds, CPU_PER_GB.name: cpu_s / (self.count * self.record_bytes) * 1e9}

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))


class DrainRaw(Row):
    """One connection that fetches 1 MB at a time and throws it away."""

    key = "drain"
    title = "consume, raw Fetch of 1 MB, one connection"
    figures = (BYTE_RATE, CPU_PER_GB)

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic("drain", 1)
        batch = frames.batch([b"x" * DRAIN_RECORD_BYTES] * DRAIN_RECORDS_PER_BATCH, int(time.time() * 1000))
        self.batches_per_fetch = DRAIN_FETCH_BYTES // len(batch)
        produce = frames.produce(topic, [0], batch)
        written = 0
        while written < DRAIN_BATCHES:
            written += load.requests(side.address, [produce], connections=1, seconds=0.5).answers

    def play(self, side: Side) -> dict[str, float]:
        fetch = frames.fetch(self.topics[side], 0, 0, max_bytes=DRAIN_FETCH_BYTES, min_bytes=1, max_wait_ms=500)
        whole_fetches = DRAIN_BATCHES // self.batches_per_fetch - 1
        stride = self.batches_per_fetch * DRAIN_RECORDS_PER_BATCH
        meter = Meter(side)
        seen = load.drain(
            side.address, fetch, range(0, whole_fetches * stride, stride), seconds=self.effort.load_s, ready=meter.begin
        )
        _, cpu_s = meter.end()
        return {
            BYTE_RATE.name: seen.received_bytes / seen.seconds / 1e6,
            CPU_PER_GB.name: cpu_s / seen.received_bytes * 1e9,
        }

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))
