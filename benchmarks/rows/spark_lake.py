"""Topics that ``kpybroker.spark.lake`` makes Delta tables of, with values as bytes and as JSON.

The writer is a client like others: one Spark, warm, works with both brokers in turn. It runs the checkout, uncompiled.
"""

from typing import Final

from benchmarks.figures import Figure
from benchmarks.rows.row import FULL, Effort
from benchmarks.rows.spark import SparkRow
from benchmarks.sides import Side

RECORDS: Final = 4_000_000
RECORD_BYTES: Final = 100
PARTITIONS: Final = 2
FORMATS: Final = ("bytes", "json")
PER_CORE: Final = {
    "bytes": Figure("bytes, per core", "records/s", True),
    "json": Figure("JSON, per core", "records/s", True),
}
"""Records for each second of CPU of Spark and its Python processes."""
RATE: Final = {
    "bytes": Figure("bytes, throughput", "records/s", True),
    "json": Figure("JSON, throughput", "records/s", True),
}


class SparkLake(SparkRow):
    """New tables, each with all records of a topic in two partitions; Spark has two cores."""

    key = "spark-lake"
    figures = (*PER_CORE.values(), *RATE.values())
    warms_up = False
    expected_s = 150.0

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.count = RECORDS * effort.produced_mb // FULL.produced_mb
        self.title = f"Spark writes Delta tables, {self.count / 1e6:.1f} M records of {RECORD_BYTES} B"
        self.topics: dict[Side, dict[str, str]] = {}

    def open(self, side: Side) -> None:
        """Fills the topics; then a round that does not count, since Spark's first jobs are slow."""
        spark = self.spark_for(side)
        self.topics[side] = {values: side.create_topic(f"lake-{values}", PARTITIONS) for values in FORMATS}
        for values, topic in self.topics[side].items():
            spark.ask("fill_lake", side, topic, self.count, {"values": values})
        self.play(side)

    def play(self, side: Side) -> dict[str, float]:
        assert self.spark is not None
        figures = {}
        for values, topic in self.topics[side].items():
            before_s = self.spark.cpu_seconds()
            seconds = self.spark.ask("lake", side, topic, self.count, {"values": values})
            figures[PER_CORE[values].name] = self.count / (self.spark.cpu_seconds() - before_s)
            figures[RATE[values].name] = self.count / seconds
        return figures

    def close(self, side: Side) -> None:
        for topic in self.topics.pop(side).values():
            side.delete_topic(topic)
        super().close(side)
