"""The streaming query: flights in, sums by day and airport out, exactly once, all by ``format("kpybroker")``."""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.dataset import Daily, Sums
from examples.flights.streaming import summed

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


def newest_sums(spark: SparkSession, address: str, topic: str) -> tuple[Daily, int]:
    """The last committed value of every key, and the number of committed records."""
    records = (
        spark.read.format("kpybroker")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("kafka.isolation.level", "read_committed")
        .load()
        .selectExpr("CAST(key AS STRING) key", "CAST(value AS STRING) value", "offset", "partition")
        .orderBy("partition", "offset")
        .collect()
    )
    newest: Daily = {}
    for record in records:
        key, value = json.loads(record.key), json.loads(record.value)
        newest[key["day"], key["origin"]] = Sums(**value)
    return newest, len(records)
