"""The driver of a Spark query that writes the numbers 0, 1, 2 ... into a topic. It starts a failed query again.

Its arguments are the broker, the topic, the directory, the way (``driver`` or ``tasks``) and a file that ends it once
it is there. Its checkpoint is all that it knows of its former lives.
"""

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

ROWS_PER_BATCH = 40
CHECK_EVERY_S = 0.2
START_AGAIN_S = 1.0


def session(directory: Path) -> SparkSession:
    """A small session. A task is tried again where that does no harm."""
    settings = {
        "spark.driver.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.stage.maxConsecutiveAttempts": "1",
    }
    builder: Any = SparkSession.builder
    builder = builder.master("local[2,3]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def query(spark: SparkSession, servers: str, topic: str, directory: Path, way: str) -> Any:
    """The running query."""
    options = {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "kafka.delivery.timeout.ms": "60000",
        "kafka.request.timeout.ms": "10000",
    }
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH)
    rows = (
        source.option("numPartitions", 2).load().selectExpr("cast(value as string) key", "cast(value as string) value")
    )
    if way == "tasks":
        from kpybroker.spark import by_partition

        rows = by_partition(rows, options)
    sink = rows.writeStream.format("kpybroker").options(**options)
    return sink.option("checkpointLocation", str(directory / "checkpoint")).start()


def main(servers: str, topic: str, directory: Path, way: str, over: Path) -> None:
    spark = session(directory)
    while not over.exists():
        running = query(spark, servers, topic, directory, way)
        while running.isActive and not over.exists():
            time.sleep(CHECK_EVERY_S)
        if running.exception() is not None:
            print(f"query failed: {' '.join(str(running.exception()).split())[:1500]}", flush=True)
            time.sleep(START_AGAIN_S)
        try:
            running.stop()
        except PySparkException as error:
            print(f"query did not stop: {error}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
