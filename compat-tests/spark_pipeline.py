"""A streaming query from Kafka into files that can be started, stopped and asked what it has written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


class Pipeline:
    """A query from Kafka into Parquet files, which with its checkpoint holds every record exactly once."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, directory: Path, **options: str) -> None:
        self.spark = spark
        self.bootstrap_servers = bootstrap_servers
        self.directory = directory
        self.options = {"startingOffsets": "earliest", **options}

    def source(self) -> DataFrame:
        source = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap_servers)
        return source.options(**self.options).load()

    def start(self, **trigger: Any) -> Any:
        rows = self.source().selectExpr("cast(value as string) v", "topic t", "partition p", "offset o")
        sink = rows.writeStream.format("parquet").option("path", str(self.directory / "rows"))
        return sink.option("checkpointLocation", str(self.directory / "checkpoint")).trigger(**trigger).start()

    def run_available(self) -> Any:
        """Process what is there with ``availableNow`` and return the ended query."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120), "availableNow did not come to an end"
        return query

    @contextmanager
    def running(self) -> Iterator[Any]:
        query = self.start(processingTime="100 milliseconds")
        try:
            yield query
        finally:
            query.stop()

    def values(self) -> list[str]:
        """What has been written so far, in no order."""
        if not (self.directory / "rows" / "_spark_metadata").exists():
            return []
        return [row.v for row in self.spark.read.parquet(str(self.directory / "rows")).select("v").collect()]


def sizes(query: Any) -> list[int]:
    """How many rows each batch read, without the empty ones."""
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def has_read(query: Any, rows: int) -> bool:
    """Whether the running query has read at least that many rows; raises what it failed with."""
    if query.exception() is not None:
        raise query.exception()
    return sum(sizes(query)) >= rows
