"""Consume throughput: real clients, which are the limit themselves, and a raw reader that shows the broker's own."""

import time
from abc import abstractmethod

from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.raw import frames, load
from benchmarks.rows.producing import CPU_PER_GB, RATE, SLOW_CLIENT_SHARE, expect_records, throughput_points
from benchmarks.rows.row import Effort, Meter, Row
from benchmarks.rows.shape import Shape
from benchmarks.sides import Side

BYTE_RATE = Figure("throughput", "MB/s", True)
DRAIN_RECORDS_PER_BATCH = 150
DRAIN_RECORD_BYTES = 100
DRAIN_BATCHES = 6000
DRAIN_FETCH_BYTES = 1 << 20


class Consume(Row):
    """A topic read from its start; it is written once per side, by confluent-kafka, in the same batches on each."""

    figures = (RATE, CPU_PER_GB)
    client: str
    words: str

    def __init__(self, effort: Effort, shape: Shape) -> None:
        super().__init__(effort)
        self.shape = shape
        usual = Shape(partitions=effort.partitions)
        self.key = shape.key(f"consume-{self.client}", usual)
        self.title = shape.title(f"consume, {self.words}", usual)
        self.points = throughput_points(f"consume, {self.words}", shape, usual)
        self.topics: dict[Side, str] = {}

    @property
    def count(self) -> int:
        return self.effort.records(self.shape.record_bytes)

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic("consume", self.shape.partitions)
        running.confluent_fill(side.bootstrap_servers, topic, self.count, self.shape)
        expect_records(side, topic, self.shape.partitions, self.count)

    def play(self, side: Side) -> dict[str, float]:
        meter = Meter(side)
        rate = self.read(side.bootstrap_servers, self.topics[side])
        _, cpu_s = meter.end()
        return {RATE.name: rate, CPU_PER_GB.name: cpu_s / (self.count * self.shape.record_bytes) * 1e9}

    @abstractmethod
    def read(self, bootstrap: str, topic: str) -> float:
        """Reads every record; how many a second."""

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))


class ConsumeConfluent(Consume):
    """confluent-kafka with all partitions assigned from their start."""

    client, words = "confluent", "confluent-kafka"

    def read(self, bootstrap: str, topic: str) -> float:
        return self.count / running.confluent_consume(bootstrap, topic, self.shape.partitions, self.count)


class ConsumePython(Consume):
    """kafka-python with all partitions assigned from their start."""

    client, words = "python", "kafka-python"

    @property
    def count(self) -> int:
        return super().count // SLOW_CLIENT_SHARE

    def read(self, bootstrap: str, topic: str) -> float:
        return self.count / running.client("python_consume", bootstrap, topic, self.shape.partitions, self.count)


class ConsumeJava(Consume):
    """Kafka's ConsumerPerformance, a group of one; a fresh JVM each round, cold as the tool is."""

    client, words = "java", "ConsumerPerformance"
    expected_s = 45.0

    def read(self, bootstrap: str, topic: str) -> float:
        return running.consumer_performance(bootstrap, topic, self.count)


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


def consume_rows(effort: Effort) -> list[Row]:
    """Every value of every dimension that a reader can tell, with the others as usual; the raw reader last."""
    usual = Shape(partitions=effort.partitions)
    by_confluent = [
        *(usual._replace(record_bytes=size) for size in (100, 1000, 10_000)),
        *(usual._replace(partitions=count) for count in (1, 100)),
        *(usual._replace(codec=codec) for codec in ("lz4", "zstd")),
    ]
    by_java = [usual._replace(record_bytes=size) for size in (100, 1000, 10_000)]
    by_java.append(usual._replace(partitions=100, codec="lz4"))
    return [
        *(ConsumeConfluent(effort, shape) for shape in by_confluent),
        *(ConsumeJava(effort, shape) for shape in by_java),
        *(ConsumePython(effort, usual._replace(record_bytes=size)) for size in (100, 1000, 10_000)),
        DrainRaw(effort),
    ]
