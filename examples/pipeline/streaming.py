"""The streaming query: flights in, sums by day and airport out, exactly once, all by ``format("kpybroker")``."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kpybroker.pipeline.demo.streaming import summed

RECORDS_PER_BATCH = 120_000


def session(directory: Path) -> SparkSession:
    """A local Spark; the source and the sink come with kpybroker."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("pipeline")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start(spark: SparkSession, address: str, source: str, sink: str, checkpoint: Path) -> StreamingQuery:
    """A query that goes on until it is stopped. Each micro-batch writes all sums as they are then."""
    records = (
        spark.readStream.format("kpybroker")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("columns", "value,timestamp")
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
        .load()
    )
    return (
        summed(records)
        .writeStream.format("kpybroker")
        .option("kafka.bootstrap.servers", address)
        .option("topic", sink)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("complete")
        .start()
    )
