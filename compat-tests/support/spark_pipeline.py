"""Queries of the Spark suite: batches, streams into files that can be stopped and asked what they have written, and the
numbers that both read."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from support import spark_formats
from support.clients import Confluent, Record, Sending

NOON_MS = 1_600_000_000_000
"""The time of number 0; the others follow by a millisecond each."""


def fill(confluent: Confluent, topic: str, numbers: range, partitions: int = 1) -> list[str]:
    """Writes the numbers to the partitions in turn; their texts, as a query finds them."""
    records = [
        Record(str(number).encode(), timestamp_ms=NOON_MS + number, partition=number % partitions) for number in numbers
    ]
    confluent.produce(topic, records, Sending(linger_ms=10))
    return [str(number) for number in numbers]


class Batch:
    """A broker's topics as batch queries."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str) -> None:
        self.spark = spark
        self.bootstrap_servers = bootstrap_servers

    def __call__(self, topic: str | None = None, **options: Any) -> DataFrame:
        """``topic`` is subscribed to; other options are passed on."""
        source = self.spark.read.format(spark_formats.chosen).option("kafka.bootstrap.servers", self.bootstrap_servers)
        return source.options(**({"subscribe": topic} if topic else {}), **options).load()


class Pipeline:
    """A query from Kafka into Parquet files, which with its checkpoint holds every record exactly once."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, directory: Path, **options: str) -> None:
        self.spark = spark
        self.bootstrap_servers = bootstrap_servers
        self.directory = directory
        self.options = {"startingOffsets": "earliest", **options}

    def source(self) -> DataFrame:
        source = self.spark.readStream.format(spark_formats.chosen).option(
            "kafka.bootstrap.servers", self.bootstrap_servers
        )
        return source.options(**self.options).load()

    def start(self, **trigger: Any) -> Any:
        rows = self.source().selectExpr("cast(value as string) v", "topic t", "partition p", "offset o")
        sink = rows.writeStream.format("parquet").option("path", str(self.directory / "rows"))
        return sink.option("checkpointLocation", str(self.directory / "checkpoint")).trigger(**trigger).start()

    def run_available(self) -> Any:
        """Process what is there with ``availableNow`` and return the ended query."""
        return ended(self.start(availableNow=True))

    def run_all(self) -> list[int]:
        """Process what is there, and return the sizes of the batches."""
        return run_all(lambda: self.start(availableNow=True))

    @contextmanager
    def running(self) -> Iterator[Any]:
        query = self.start(processingTime="100 milliseconds")
        try:
            yield query
        finally:
            query.stop()

    def values(self) -> list[str]:
        """The values that have been written until now, in no order."""
        if not (self.directory / "rows" / "_spark_metadata").exists():
            return []
        return [row.v for row in self.spark.read.parquet(str(self.directory / "rows")).select("v").collect()]


def ended(query: Any) -> Any:
    """A query with ``availableNow`` once it has ended."""
    assert query.awaitTermination(120), "availableNow did not come to an end"
    return query


def run_all(start: Callable[[], Any]) -> list[int]:
    """Start a query with ``availableNow`` until nothing is left, and return the sizes of the batches. With a source in
    Python, each run is one batch before Spark 4.2."""
    found: list[int] = []
    while more := sizes(ended(start())):
        found += more
    return found


def progress_of(query: Any) -> list[dict[str, Any]]:
    """The reports of a query on its last batches. PySpark's own form of it differs between versions, its JSON not."""
    return [json.loads(progress.json()) for progress in query._jsq.recentProgress()]


def sizes(query: Any) -> list[int]:
    """How many rows each batch read, without the empty ones."""
    return [progress["numInputRows"] for progress in progress_of(query) if progress["numInputRows"]]


def has_read(query: Any, rows: int) -> bool:
    """Whether the running query has read at least that many rows; raises what it failed with."""
    if query.exception() is not None:
        raise query.exception()
    return sum(sizes(query)) >= rows
