"""The Spark side: ``python -m examples.payments.balances``. It may be killed at any moment and started again.

Committed payments in, one total per account out. Spark's Kafka sink writes at least once: killed after a batch was
written and before the checkpoint says so, it writes that batch again. It does so from the same offsets and the same
state, so the records are the same as before; and since each is the whole total of its account, not what is to be added
to it, the newest record of an account is exact, however often it was written. The topic is compacted for that reason.
"""

from pathlib import Path

import click
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from examples.payments import BALANCES_TOPIC, PAYMENTS_TOPIC

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
PAYMENT = "account string, cents long, till int, basket int"


def session(directory: Path) -> SparkSession:
    """A local Spark with its Kafka connector, which the first run downloads."""
    settings = {
        "spark.jars.packages": CONNECTOR,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("balances")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def balances(spark: SparkSession, bootstrap_servers: str) -> DataFrame:
    """A stream of keys and values: number and sum of all committed payments of an account so far."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", PAYMENTS_TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    payment = sql.from_json(sql.col("value").cast("string"), PAYMENT).alias("payment")
    sums = (
        records.select(payment)
        .groupBy(sql.col("payment.account").alias("account"))
        .agg(sql.count("*").alias("payments"), sql.sum("payment.cents").alias("cents"))
    )
    return sums.select(sql.col("account").alias("key"), sql.to_json(sql.struct("payments", "cents")).alias("value"))


@click.command()
@click.option("--bootstrap-server", required=True)
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="The directory of the checkpoint.")
@click.option("--to-the-end", is_flag=True, help="Work on the records that exist and end, instead of waiting for more.")
def main(bootstrap_server: str, directory: Path, to_the_end: bool) -> None:
    """Go on from the checkpoint."""
    writer = (
        balances(session(directory), bootstrap_server)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_server)
        .option("topic", BALANCES_TOPIC)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .outputMode("update")
    )
    writer = writer.trigger(availableNow=True) if to_the_end else writer.trigger(processingTime="1 second")
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
