"""Produce throughput with real clients, and the broker's CPU per GB of record values."""

from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.rows.row import Effort, Meter, RoundError, Row
from benchmarks.sides import Side

RATE = Figure("throughput", "records/s", True)
CPU_PER_GB = Figure("broker CPU", "s/GB", False)


class ProduceConfluent(Row):
    """confluent-kafka, acks=1, everything else librdkafka's default; values of one size or of sizes in a range."""

    figures = (RATE, CPU_PER_GB)

    def __init__(self, effort: Effort, smallest_bytes: int, largest_bytes: int) -> None:
        super().__init__(effort)
        self.sizes = (smallest_bytes, largest_bytes)
        self.mean_bytes = (smallest_bytes + largest_bytes) // 2
        size = f"{smallest_bytes}" if smallest_bytes == largest_bytes else f"{smallest_bytes}-{largest_bytes}"
        self.key = f"produce-confluent-{size}"
        self.title = f"produce, confluent-kafka, {size} B"

    def play(self, side: Side) -> dict[str, float]:
        count, partitions = self.effort.records(self.mean_bytes), self.effort.partitions
        topic = side.create_topic("produce", partitions)
        meter = Meter(side)
        seconds = running.confluent("confluent_produce", side.bootstrap_servers, topic, count, *self.sizes)
        _, cpu_s = meter.end()
        expect_records(side, topic, partitions, count)
        side.delete_topic(topic)
        return {RATE.name: count / seconds, CPU_PER_GB.name: cpu_s / (count * self.mean_bytes) * 1e9}


class ProduceJava(Row):
    """Kafka's ProducerPerformance with the Java producer's defaults, a fresh JVM each round that warms up first."""

    figures = (RATE, CPU_PER_GB)

    def __init__(self, effort: Effort, record_bytes: int) -> None:
        super().__init__(effort)
        self.record_bytes = record_bytes
        self.key = f"produce-java-{record_bytes}"
        self.title = f"produce, ProducerPerformance (acks=all, idempotent), {record_bytes} B"

    def play(self, side: Side) -> dict[str, float]:
        count, partitions = self.effort.records(self.record_bytes), self.effort.partitions
        warm_count = count // 2
        topic = side.create_topic("produce-java", partitions)
        meter = Meter(side)
        rate = running.producer_performance(side.bootstrap_servers, topic, count, warm_count, self.record_bytes)
        _, cpu_s = meter.end()
        expect_records(side, topic, partitions, count + warm_count)
        side.delete_topic(topic)
        return {RATE.name: rate, CPU_PER_GB.name: cpu_s / ((count + warm_count) * self.record_bytes) * 1e9}


def expect_records(side: Side, topic: str, partitions: int, count: int) -> None:
    """Raises RoundError unless the topic holds ``count`` records."""
    kept = side.record_count(topic, partitions)
    if kept != count:
        raise RoundError(f"{side.program} keeps {kept} records of {count}")
