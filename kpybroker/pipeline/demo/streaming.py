"""The Spark side: topic in, event-time windows, topic out. Nothing here is particular to this broker."""

import json
import time
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from kpybroker.pipeline.demo.dataset import Daily, Sums
from kpybroker.pipeline.demo.progress import Advance

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
FLIGHT = "carrier string, flight int, origin string, dest string, dep_delay int, distance int"
RECORDS_PER_BATCH = 60_000


def session(directory: Path) -> SparkSession:
    """A local Spark with its Kafka connector, which the first run downloads."""
    builder = SparkSession.builder.master("local[2]").appName("flights")
    settings = {
        "spark.jars.packages": CONNECTOR,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def daily_sums(spark: SparkSession, bootstrap_servers: str, topic: str) -> DataFrame:
    """A stream of keys and values: sums by day of the record timestamp and by airport."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
        .load()
    )
    return summed(records)


def summed(records: DataFrame) -> DataFrame:
    """The sums of records of a source; what is no flight is left out."""
    flight = sql.from_json(sql.col("value").cast("string"), FLIGHT)
    sums = (
        records.select("timestamp", flight.alias("flight"))
        .select("timestamp", "flight.*")
        .where("origin is not null")
        .groupBy(sql.window("timestamp", "1 day"), "origin")
        .agg(
            sql.count("*").alias("flights"),
            sql.count_if(sql.col("dep_delay").isNull()).alias("cancelled"),
            sql.coalesce(sql.sum("dep_delay"), sql.lit(0)).alias("delay"),
            sql.sum("distance").alias("distance"),
        )
    )
    day = sql.unix_millis(sql.col("window.start")).alias("day")
    return sums.select(
        sql.to_json(sql.struct(day, "origin")).alias("key"),
        sql.to_json(sql.struct("flights", "cancelled", "delay", "distance")).alias("value"),
    )


def run(stream: DataFrame, bootstrap_servers: str, topic: str, checkpoint: Path, read: Advance) -> None:
    """Take the stream as far as its input goes and end; started again, it goes on from its checkpoint.

    ``read`` is called with the records of each micro-batch.
    """
    query = (
        stream.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    reported: set[int] = set()
    while True:
        active = query.isActive
        for progress in query.recentProgress:
            if progress.batchId not in reported:
                reported.add(progress.batchId)
                read(progress.numInputRows)
        if not active:
            break
        time.sleep(0.1)
    query.awaitTermination()


def newest_sums(
    spark: SparkSession, bootstrap_servers: str, topic: str, source: str = "kafka", isolation: str = "read_uncommitted"
) -> tuple[Daily, int]:
    """The last value of every key in the topic, read as a batch, and how many records it took."""
    records = (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("kafka.isolation.level", isolation)
        .option("subscribe", topic)
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
