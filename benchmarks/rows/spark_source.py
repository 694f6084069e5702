"""The data source ``format("kpybroker")`` beside Spark's own Kafka source: A reads with Spark's own, B with ours.

So the usual run compares Spark's own on Apache Kafka with ours on kpybroker; with ``--a kpybroker`` both read from
kpybroker.
All columns of all records go through Spark into nothing, but in the two figures that say otherwise.
"""

from typing import Any, Final

from benchmarks.figures import Figure
from benchmarks.rows.row import FULL, Effort, Meter, RoundError, Row
from benchmarks.rows.spark import SparkRow
from benchmarks.sides import HOST, Kpybroker, Side

TOPICS: Final = {
    "spark-source-100": (6_000_000, 100),
    "spark-source-1000": (1_000_000, 1000),
    "spark-source-1000-long": (3_000_000, 1000),
}
"""By the key of a row: the records that a round of full size reads for each figure, and the bytes of a value.

The start of a query takes a third of a second: a large part of a round where few bytes are decoded.
"""
PARTITIONS: Final = 2
KEPT: Final = 100
"""The filter keeps one record in this number."""

FILES = Figure("files", "records/s", True)
FETCH = Figure("Fetch", "records/s", True)
NARROW = Figure("one narrow column", "records/s", True)
FILTER = Figure("a filter that keeps a hundredth", "records/s", True)
FILES_CPU = Figure("CPU of Spark and broker, files", "s/GB", False)
FETCH_CPU = Figure("CPU of Spark and broker, Fetch", "s/GB", False)
BROKER_CPU = Figure("broker CPU, files", "s/GB", False)


class SparkSource(SparkRow):
    """A topic in two partitions, read as a batch."""

    figures = (FILES, FETCH, NARROW, FILTER, FILES_CPU, FETCH_CPU, BROKER_CPU)
    warms_up = False
    expected_s = 150.0

    def __init__(self, effort: Effort, key: str) -> None:
        super().__init__(effort)
        self.key = key
        records, record_bytes = TOPICS[key]
        self.record_bytes = record_bytes
        self.count = records * effort.produced_mb // FULL.produced_mb
        self.title = (
            f'Spark, format("kpybroker") beside its own source, {self.count / 1e6:.1f} M records of {record_bytes} B'
        )
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        """Fills the topic; then a round that does not count, since Spark's first queries are slow."""
        topic = self.topics[side] = side.create_topic("source", PARTITIONS)
        self.spark_for(side).ask("fill_random", side, topic, self.count, {"size": self.record_bytes})
        self.play(side)

    def play(self, side: Side) -> dict[str, float]:
        if side.letter == "A":
            rate, spark_s, broker_s = self._scan(side, "kafka", self.count)
            rates = dict.fromkeys((FILES.name, FETCH.name, NARROW.name, FILTER.name), rate)
            both = self._per_gb(spark_s + broker_s)
            return {**rates, FILES_CPU.name: both, FETCH_CPU.name: both, BROKER_CPU.name: self._per_gb(broker_s)}
        if not isinstance(side.broker, Kpybroker):
            raise RoundError(f"{side.program} has no files to lend")
        files = {"transport": "files", "secondPorts": f"{HOST}:{side.broker.http_port}"}
        offset = self.count // PARTITIONS - self.count // PARTITIONS // KEPT
        kept = self.count // KEPT
        rate, files_s, broker_s = self._scan(side, "kpybroker", self.count, files)
        fetch_rate, fetch_s, fetch_broker_s = self._scan(side, "kpybroker", self.count, {"transport": "fetch"})
        narrow, _, _ = self._scan(side, "kpybroker", self.count, {**files, "columns": "offset"})
        filtered, _, _ = self._scan(side, "kpybroker", kept, {**files, "filter": f"offset >= {offset}"})
        return {
            FILES.name: rate,
            FETCH.name: fetch_rate,
            NARROW.name: narrow,
            FILTER.name: filtered * KEPT,
            FILES_CPU.name: self._per_gb(files_s + broker_s),
            FETCH_CPU.name: self._per_gb(fetch_s + fetch_broker_s),
            BROKER_CPU.name: self._per_gb(broker_s),
        }

    def _scan(
        self, side: Side, source: str, count: int, options: dict[str, str] | None = None
    ) -> tuple[float, float, float]:
        """Records per second, and the CPU seconds of Spark and of the broker."""
        assert self.spark is not None
        more: dict[str, Any] = {"source": source, "options": options or {}}
        meter, spark_s = Meter(side), self.spark.cpu_seconds()
        seconds = self.spark.ask("read", side, self.topics[side], count, more)
        _, broker_s = meter.end()
        return count / seconds, self.spark.cpu_seconds() - spark_s, broker_s

    def _per_gb(self, seconds: float) -> float:
        return seconds / (self.count * self.record_bytes) * 1e9

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))
        super().close(side)


def spark_source_rows(effort: Effort) -> list[Row]:
    """Small records, larger ones, and more of these."""
    return [SparkSource(effort, key) for key in TOPICS]
