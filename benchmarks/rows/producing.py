"""Produce throughput with real clients, and the broker's CPU per GB of record values."""

from abc import abstractmethod

from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.rows.row import BY_PARTITIONS, BY_SIZE, Effort, Meter, Point, RoundError, Row
from benchmarks.rows.shape import Shape
from benchmarks.sides import Side

RATE = Figure("throughput", "records/s", True)
CPU_PER_GB = Figure("broker CPU", "s/GB", False)
SLOW_CLIENT_SHARE = 12
"""A client in pure Python gets fewer records by this factor, or a round would last minutes."""


class Produce(Row):
    """A new topic each round, which must hold every record at the end."""

    figures = (RATE, CPU_PER_GB)
    client: str
    words: str
    usual = Shape()

    def __init__(self, effort: Effort, shape: Shape) -> None:
        super().__init__(effort)
        self.shape = shape
        self.usual = self.usual._replace(partitions=effort.partitions)
        self.key = shape.key(f"produce-{self.client}", self.usual)
        self.title = shape.title(f"produce, {self.words}", self.usual)
        self.points = throughput_points(f"produce, {self.words}", shape, self.usual)

    def play(self, side: Side) -> dict[str, float]:
        topic = side.create_topic("produce", self.shape.partitions)
        meter = Meter(side)
        count, rate = self.send(side.bootstrap_servers, topic)
        _, cpu_s = meter.end()
        expect_records(side, topic, self.shape.partitions, count)
        side.delete_topic(topic)
        return {RATE.name: rate, CPU_PER_GB.name: cpu_s / (count * self.shape.record_bytes) * 1e9}

    @abstractmethod
    def send(self, bootstrap: str, topic: str) -> tuple[int, float]:
        """Writes a round's records; how many, and how many a second."""


class ProduceConfluent(Produce):
    """confluent-kafka, acks=1 as usual, everything else librdkafka's default."""

    client, words = "confluent", "confluent-kafka"

    def send(self, bootstrap: str, topic: str) -> tuple[int, float]:
        count = self.effort.records(self.shape.record_bytes)
        return count, count / running.confluent_produce(bootstrap, topic, count, self.shape)


class ProducePython(Produce):
    """kafka-python, acks=1 as usual, everything else its default."""

    client, words = "python", "kafka-python"

    def send(self, bootstrap: str, topic: str) -> tuple[int, float]:
        count = self.effort.records(self.shape.record_bytes) // SLOW_CLIENT_SHARE
        return count, count / running.python_produce(bootstrap, topic, count, self.shape)


class ProduceJava(Produce):
    """Kafka's ProducerPerformance with the Java producer's defaults, a fresh JVM each round that warms up first."""

    client, words = "java", "ProducerPerformance"
    expected_s = 45.0
    usual = Shape(acks="all", idempotent=True)

    def send(self, bootstrap: str, topic: str) -> tuple[int, float]:
        count = self.effort.records(self.shape.record_bytes)
        warm_count = count // 2
        return count + warm_count, running.producer_performance(bootstrap, topic, count, warm_count, self.shape)


def throughput_points(curve: str, shape: Shape, usual: Shape) -> tuple[Point, ...]:
    """The row's points in the plots by size and by partitions: only if everything else is as usual."""
    points = []
    if shape._replace(record_bytes=usual.record_bytes) == usual:
        points.append(Point(BY_SIZE, curve, shape.record_bytes, RATE.name))
    if shape._replace(partitions=usual.partitions) == usual:
        points.append(Point(BY_PARTITIONS, curve, shape.partitions, RATE.name))
    return tuple(points)


def expect_records(side: Side, topic: str, partitions: int, count: int) -> None:
    """Raises RoundError unless the topic holds ``count`` records."""
    kept = side.record_count(topic, partitions)
    if kept != count:
        raise RoundError(f"{side.program} keeps {kept} records of {count}")


def produce_rows(effort: Effort) -> list[Row]:
    """Every value of every dimension with the others as usual, and the corners where they meet."""
    p = effort.partitions
    usual, java = Shape(partitions=p), Shape(acks="all", idempotent=True, partitions=p)
    by_confluent = [
        *(usual._replace(record_bytes=size) for size in (100, 1000, 10_000)),
        usual._replace(record_bytes=100, smallest_bytes=50),
        *(usual._replace(partitions=count) for count in (1, 100)),
        *(usual._replace(codec=codec) for codec in ("lz4", "zstd")),
        usual._replace(acks="all"),
        usual._replace(acks="all", idempotent=True),
        usual._replace(record_bytes=100, partitions=100, codec="zstd"),
    ]
    by_java = [
        *(java._replace(record_bytes=size) for size in (100, 1000, 10_000)),
        *(java._replace(partitions=count) for count in (1, 100)),
        *(java._replace(codec=codec) for codec in ("lz4", "zstd")),
        java._replace(acks="1", idempotent=False),
        java._replace(record_bytes=100, partitions=100, codec="lz4"),
    ]
    by_python = [usual._replace(record_bytes=size) for size in (100, 1000, 10_000)]
    return [
        *(ProduceConfluent(effort, shape) for shape in by_confluent),
        *(ProduceJava(effort, shape) for shape in by_java),
        *(ProducePython(effort, shape) for shape in by_python),
    ]
